//! Who reads which setting, and what it does.
//!
//! [`lookup`] answers for one name; [`unread`] names the settings of a case that nothing in its
//! backend reads, so that nobody draws conclusions from a variable without effect. The command line
//! shows the findings before a run, the agent records them, reports repeat them.
//!
//! This is what ringbreaker itself and its two backends read, and the names that people set in the
//! belief that something does; it is no catalogue of all of NCCL.

mod kernel;
mod nccl;
mod nobody;
pub(crate) mod own;
mod unread;
mod watchdog;

use serde::Serialize;

pub use unread::{HOST_READS, Unread, unread};

/// What is known about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SettingDoc {
    /// Its name, as written under `[settings]`.
    pub name: &'static str,
    /// Which layer it belongs to.
    pub layer: Layer,
    /// Who reads it.
    pub reads: &'static str,
    /// Unit of a bare number; empty where there is none.
    pub unit: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, and what happens when it acts.
    pub effect: &'static str,
    /// Where that is known from.
    pub source: &'static str,
}

/// The layer that a setting acts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// ringbreaker's rank: its watchdog, or what the controller tells all ranks.
    Rank,
    /// The kernel: limits of a node and its ranks.
    Kernel,
    /// NCCL.
    Nccl,
    /// No library: the name is believed in, or read by scripts alone.
    Nobody,
}

/// What is known about the setting of this name.
pub fn lookup(name: &str) -> Option<&'static SettingDoc> {
    all().find(|doc| doc.name == name)
}

/// Everything that is known.
pub fn all() -> impl Iterator<Item = &'static SettingDoc> {
    [watchdog::DOCS, kernel::DOCS, nccl::DOCS, nobody::DOCS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_setting_of_ringbreaker_is_explained() {
        for own in own::OWN {
            assert!(lookup(own.name).is_some(), "{} has no entry", own.name);
        }
    }

    #[test]
    fn every_name_that_the_host_backend_reads_is_explained() {
        for name in HOST_READS {
            assert!(lookup(name).is_some(), "{name} has no entry");
        }
    }

    #[test]
    fn no_name_is_explained_twice_and_no_explanation_is_empty() {
        let mut names = BTreeSet::new();
        for doc in all() {
            assert!(names.insert(doc.name), "{} is there twice", doc.name);
            for text in [doc.reads, doc.default, doc.effect, doc.source] {
                assert!(!text.is_empty(), "{} lacks something", doc.name);
            }
        }
    }
}
