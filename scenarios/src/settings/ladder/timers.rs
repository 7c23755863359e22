//! The values that timers are computed from: as set, else the default of the version.

use std::collections::BTreeMap;

use super::{Decider, Framework, Rung, Stack};
use crate::{
    settings::{Version, lookup, older_names, own, value},
    units::Nanos,
};

/// The argument by which a PyTorch group gets its timeout.
const GROUP_TIMEOUT: &str = "init_process_group(timeout=)";

/// Settings and the stack that they meet.
pub(super) struct Timers<'a> {
    pub(super) settings: &'a BTreeMap<String, String>,
    pub(super) stack: Stack,
}

/// A time with the settings that decide it.
pub(super) struct Decided {
    /// None: never.
    pub(super) time: Option<Nanos>,
    pub(super) by: Vec<Decider>,
}

impl Timers<'_> {
    /// A setting under its name or an older one, else its default.
    pub(super) fn decider(&self, name: &str) -> Decider {
        let typed = |name: &str| {
            let value = self.settings.get(name)?.clone();
            Some(Decider { name: name.to_owned(), value, set: true })
        };
        typed(name).or_else(|| older_names(name).find_map(typed)).unwrap_or_else(|| Decider {
            name: name.to_owned(),
            value: self.default(name),
            set: false,
        })
    }

    fn default(&self, name: &str) -> String {
        let doc = lookup(name);
        doc.map(|doc| doc.default_in(self.stack.versions.of(doc)).to_owned()).unwrap_or_default()
    }

    /// The number that a setting is read as; 0 and above.
    pub(super) fn number(&self, name: &str) -> u64 {
        let typed = self.decider(name).value;
        let read = |text: &str| lookup(name).and_then(|doc| value::number(doc, text));
        let number = read(&typed).or_else(|| read(&self.default(name)));
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    /// The time that a setting is read as, in its own unit.
    pub(super) fn time(&self, name: &str) -> Nanos {
        let unit = match lookup(name).map(|doc| doc.unit.as_str()) {
            Some("ms") => Nanos::from_millis(1),
            Some("min") => Nanos::from_secs(60),
            _ => Nanos::from_secs(1),
        };
        times(unit, self.number(name))
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    /// Whether this is PyTorch of a version or later; the newest, where none is known.
    pub(super) fn torch_from(&self, version: &str) -> bool {
        let first = Version::first(version);
        self.stack.versions.torch.is_none_or(|torch| first.is_none_or(|first| torch >= first))
    }

    /// Whether this is NCCL of a version or later; the newest, where none is known.
    pub(super) fn nccl_from(&self, version: &str) -> bool {
        let first = Version::first(version);
        self.stack.versions.nccl.is_none_or(|nccl| first.is_none_or(|first| nccl >= first))
    }

    /// What the watchdog does: 0 to 3 as PyTorch counts. torchrun sets 1 where nothing is set under the
    /// new name.
    pub(super) fn mode(&self) -> (u64, Decider) {
        const MODE: &str = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
        let mut decider = self.decider(MODE);
        if self.stack.torchrun && !self.settings.contains_key(MODE) {
            decider = Decider { name: MODE.to_owned(), value: "1".to_owned(), set: false };
        }
        (decider.value.trim().parse().unwrap_or(3), decider)
    }

    /// The deadline of an operation: the rank's, or the group's.
    pub(super) fn operation(&self) -> Decided {
        match self.stack.framework {
            Framework::Rank => self.own_deadline("op_timeout"),
            Framework::ProcessGroupNccl | Framework::Nccl2 | Framework::Gloo => self.group(),
        }
    }

    /// The deadline of a PyTorch group, as its argument gives it, or a script from a variable.
    pub(super) fn group(&self) -> Decided {
        for name in [GROUP_TIMEOUT, "NCCL_TIMEOUT"] {
            if let Some(time) = self.settings.get(name).and_then(|text| own::script_timeout(text)) {
                return Decided { time: Some(time), by: vec![self.decider(name)] };
            }
        }
        if self.settings.contains_key("DEEPSPEED_TIMEOUT") {
            let time = Some(self.time("DEEPSPEED_TIMEOUT"));
            return Decided { time, by: vec![self.decider("DEEPSPEED_TIMEOUT")] };
        }
        let mut by = self.decider(GROUP_TIMEOUT);
        if self.stack.framework == Framework::Gloo {
            by.value = "1800".to_owned();
        }
        Decided { time: by.value.parse().ok().map(Nanos::from_secs), by: vec![by] }
    }

    /// A deadline of ringbreaker's rank: its own setting, else NCCL_TIMEOUT, else never.
    pub(super) fn own_deadline(&self, name: &str) -> Decided {
        if let Some(time) = self.settings.get(name).and_then(|text| own::deadline(text)) {
            return Decided { time, by: vec![self.decider(name)] };
        }
        let scripts = self.settings.get("NCCL_TIMEOUT");
        match scripts.and_then(|text| own::script_timeout(text)) {
            Some(time) => Decided { time: Some(time), by: vec![self.decider("NCCL_TIMEOUT")] },
            None => Decided { time: None, by: vec![self.decider(name)] },
        }
    }

    /// A duration of ringbreaker's rank.
    pub(super) fn own_time(&self, name: &str) -> Nanos {
        let own = self.settings.get(name).and_then(|text| text.parse().ok());
        own.or_else(|| self.default(name).parse().ok()).unwrap_or(Nanos::ZERO)
    }

    /// How late the watchdog may notice what it looks for.
    pub(super) fn tick(&self) -> Nanos {
        match self.stack.framework {
            Framework::Rank => self.own_time("watchdog_poll"),
            Framework::ProcessGroupNccl => Nanos::from_millis(100),
            Framework::Nccl2 => Nanos::from_secs(1),
            Framework::Gloo => Nanos::ZERO,
        }
    }

    /// A timer from a deadline that the watchdog, or the waiting thread, looks at.
    pub(super) fn deadline(&self, name: &'static str, decided: Decided, does: &str) -> Rung {
        let Decided { time, by } = decided;
        // No library reads it: ringbreaker's rank does, and for PyTorch scripts hand it on.
        let by_script = by.iter().any(|by| by.name == "NCCL_TIMEOUT");
        let what = match by_script && self.stack.framework != Framework::Rank {
            true => "the deadline, if the script hands it on",
            false => "the deadline",
        };
        let late = super::seconds(self.tick());
        Rung {
            name,
            deciders: by,
            earliest: time,
            latest: time.map(|time| time + self.tick()),
            reason: match time {
                Some(_) if self.tick() > Nanos::ZERO => {
                    format!("{what}, and up to {late} until it is looked at")
                }
                Some(_) => what.to_owned(),
                None => "no deadline is set".to_owned(),
            },
            does: does.to_owned(),
            ends: true,
        }
    }
}

/// A time so many times.
pub(super) fn times(time: Nanos, count: u64) -> Nanos {
    Nanos(time.0.saturating_mul(count))
}
