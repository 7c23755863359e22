//! What isolation is possible here, found out by building a node.

use std::path::PathBuf;

use ringbreaker_scenarios::{
    case::{NodeLimits, Rank},
    event::Isolation,
};

use super::{NodeSpec, VirtualNode};
use crate::sys::{clock, userns};

/// The answer of [`isolation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The best isolation that works.
    pub isolation: Isolation,
    /// Why it is not better, or what of it is missing; empty: nothing is.
    pub reasons: Vec<String>,
}

/// Builds a node the best way that this process may, then takes it down again.
pub fn isolation() -> Probed {
    isolation_as(&tag())
}

/// A tag that no other probe has.
pub(crate) fn tag() -> String {
    format!("probe-{}-{:x}", std::process::id(), clock::now().0)
}

/// The cgroups that [`isolation_as`] makes and removes.
pub(crate) fn planned_cgroups(tag: &str) -> Vec<PathBuf> {
    VirtualNode::planned_cgroups(&spec(tag), userns::present().isolation)
}

/// [`isolation`] with a node of this tag.
pub(crate) fn isolation_as(tag: &str) -> Probed {
    let present = userns::present();
    let mut reasons: Vec<String> = present.reason.into_iter().collect();
    if present.isolation == Isolation::Plain {
        return Probed { isolation: Isolation::Plain, reasons };
    }
    match VirtualNode::build(&spec(tag), present.isolation) {
        Ok((node, _)) => {
            if present.isolation == Isolation::Namespaces {
                reasons.extend(node.no_cgroups().map(str::to_owned));
            }
            Probed { isolation: present.isolation, reasons }
        }
        Err(error) => {
            // What a user namespace lacks does not matter where not even that can be used.
            Probed { isolation: Isolation::Plain, reasons: vec![error.to_string()] }
        }
    }
}

fn spec(tag: &str) -> NodeSpec {
    const RANK: Rank = 0;
    NodeSpec {
        node: 0,
        ranks: vec![RANK],
        limits: NodeLimits::default(),
        storage: None,
        tag: tag.to_owned(),
    }
}
