//! ringbreaker's own settings, in lower case: what each may say, and whom it holds for.
//!
//! The reader of scenario files checks values with this, the planner reads them with it.

use std::collections::BTreeMap;

use crate::{
    units::{Bytes, Nanos},
    words::ErrorHandling,
};

/// One of ringbreaker's own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) scope: Scope,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A duration, or `never`.
    Deadline,
    /// A duration.
    Duration,
    /// A size.
    Size,
    /// A whole number, at least 1.
    Count,
    /// A whole number, at least 0.
    Whole,
    /// `true` or `false`.
    Flag,
    /// An error-handling mode.
    Mode,
    /// Two port numbers.
    PortRange,
}

/// Whom a setting holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A rank: it may differ from rank to rank.
    Rank,
    /// A node, and so all its ranks.
    Node,
    /// A sysctl of a node's network namespace.
    Sysctl,
    /// The whole case.
    Case,
}

const fn own(name: &'static str, form: Form, scope: Scope) -> Own {
    Own { name, form, scope }
}

/// All of them.
pub(crate) const OWN: &[Own] = &[
    own("error_handling", Form::Mode, Scope::Rank),
    own("op_timeout", Form::Deadline, Scope::Rank),
    own("init_timeout", Form::Deadline, Scope::Rank),
    own("first_op_timeout", Form::Deadline, Scope::Rank),
    own("blocking_wait", Form::Flag, Scope::Rank),
    own("watchdog_poll", Form::Duration, Scope::Rank),
    own("dump_wait", Form::Duration, Scope::Rank),
    own("coordinated_abort", Form::Flag, Scope::Case),
    own("shm_size", Form::Size, Scope::Node),
    own("memory_limit", Form::Size, Scope::Node),
    own("nofile", Form::Count, Scope::Node),
    own("tcp_retries1", Form::Count, Scope::Sysctl),
    own("tcp_retries2", Form::Count, Scope::Sysctl),
    own("tcp_syn_retries", Form::Count, Scope::Sysctl),
    own("tcp_synack_retries", Form::Count, Scope::Sysctl),
    own("tcp_syn_linear_timeouts", Form::Whole, Scope::Sysctl),
    own("tcp_keepalive_time", Form::Count, Scope::Sysctl),
    own("tcp_keepalive_intvl", Form::Count, Scope::Sysctl),
    own("tcp_keepalive_probes", Form::Count, Scope::Sysctl),
    own("ip_local_port_range", Form::PortRange, Scope::Sysctl),
];

/// The setting of this name.
pub(crate) fn find(name: &str) -> Option<&'static Own> {
    OWN.iter().find(|own| own.name == name)
}

/// Whether the name is one of ringbreaker's own.
pub(crate) fn is_own(name: &str) -> bool {
    find(name).is_some()
}

/// Whether the name is that of a sysctl.
pub(crate) fn is_sysctl(name: &str) -> bool {
    find(name).is_some_and(|own| own.scope == Scope::Sysctl)
}

impl Form {
    /// Whether a value, as typed, is written so.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Form::Deadline => deadline(text).is_some(),
            Form::Duration => text.parse::<Nanos>().is_ok(),
            Form::Size => text.parse::<Bytes>().is_ok(),
            Form::Count => text.parse::<u32>().is_ok_and(|n| n > 0),
            Form::Whole => text.parse::<u32>().is_ok(),
            Form::Flag => matches!(text, "true" | "false"),
            Form::Mode => text.parse::<ErrorHandling>().is_ok(),
            Form::PortRange => port_range(text).is_some(),
        }
    }

    /// What would be right.
    pub(crate) fn wanted(self) -> String {
        match self {
            Form::Deadline => "a duration with a unit, such as \"2s\", or \"never\"".into(),
            Form::Duration => "a duration with a unit, such as \"100ms\"".into(),
            Form::Size => "a size with a unit, such as \"64 MiB\"".into(),
            Form::Count => "a whole number, at least 1".into(),
            Form::Whole => "a whole number, at least 0".into(),
            Form::Flag => "true or false".into(),
            Form::Mode => {
                let words: Vec<_> = ErrorHandling::ALL.iter().map(|m| m.word()).collect();
                format!("one of {}", words.join(", "))
            }
            Form::PortRange => "two port numbers, the lower first, such as \"40000 40100\"".into(),
        }
    }
}

/// A deadline: outer none when it cannot be read or is no time at all, inner none for `never`.
pub(crate) fn deadline(text: &str) -> Option<Option<Nanos>> {
    if text == "never" { Some(None) } else { text.parse().ok().and_then(some_time).map(Some) }
}

fn some_time(time: Nanos) -> Option<Nanos> {
    (time > Nanos::ZERO).then_some(time)
}

/// NCCL_TIMEOUT as training scripts read it: a bare number is seconds. With a unit it is a duration.
pub(crate) fn script_timeout(text: &str) -> Option<Nanos> {
    text.parse().or_else(|_| format!("{}s", text.trim()).parse()).ok().and_then(some_time)
}

/// Whether a flag is on.
pub(crate) fn flag(settings: &BTreeMap<String, String>, name: &str) -> bool {
    settings.get(name).is_some_and(|text| text == "true")
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_whitespace().map(str::parse::<u16>);
    let (low, high) = (ports.next()?.ok()?, ports.next()?.ok()?);
    (ports.next().is_none() && low > 0 && low <= high).then_some((low, high))
}
