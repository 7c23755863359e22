//! The differences between stand-in and real NCCL that are known, each with its reason.
//!
//! ```toml
//! [[difference]]
//! scenario = "quick"
//! column = "kill"
//! row = { error_handling = "none" }    # left out: every row of the column
//! aspect = "detector"                  # missing, outcome, detector or error-class
//! host = ["rank-watchdog"]             # what the stand-in does instead; [] for missing
//! reason = "the stand-in has no proxy thread that could ..."
//! ```
//!
//! The list can only shrink: a difference that is not in it is an error, and so is an entry that
//! nothing differs by any more.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

use super::{Aspect, Difference};

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The entries.
    #[serde(default)]
    pub difference: Vec<Entry>,
}

/// One known difference.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the scenario.
    pub scenario: String,
    /// The matrix column.
    pub column: String,
    /// Settings that the row must have; none: every row.
    #[serde(default)]
    pub row: BTreeMap<String, String>,
    /// What differs.
    pub aspect: Aspect,
    /// What the stand-in may do instead.
    pub host: Vec<String>,
    /// Why it does.
    pub reason: String,
}

/// What is wrong between the differences and the list of known ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A difference that no entry is about.
    Unlisted(Difference),
    /// An entry that nothing differs by any more.
    Stale(Entry),
    /// An entry without a reason.
    Unexplained(Entry),
}

impl Known {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// When it is not of the shape above; the message names the place.
    pub fn parse(text: &str) -> Result<Known, toml::de::Error> {
        toml::from_str(text)
    }

    /// Holds differences against the list; empty when every one is known and every entry needed.
    pub fn check(&self, differences: &[Difference]) -> Vec<Problem> {
        let unlisted = differences
            .iter()
            .filter(|difference| !self.difference.iter().any(|entry| entry.covers(difference)))
            .map(|difference| Problem::Unlisted(difference.clone()));
        let stale = self
            .difference
            .iter()
            .filter(|entry| !differences.iter().any(|difference| entry.covers(difference)))
            .map(|entry| Problem::Stale(entry.clone()));
        let unexplained = self
            .difference
            .iter()
            .filter(|entry| entry.reason.trim().is_empty())
            .map(|entry| Problem::Unexplained(entry.clone()));
        unlisted.chain(stale).chain(unexplained).collect()
    }
}

impl Entry {
    fn covers(&self, difference: &Difference) -> bool {
        self.scenario == difference.scenario
            && self.column == difference.column
            && self.aspect == difference.aspect
            && self.row.iter().all(|(name, value)| difference.row.get(name) == Some(value))
            && difference.host.iter().all(|word| self.host.contains(word))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |entry: &Entry| {
            format!("{} / {} / {}", entry.scenario, entry.column, entry.aspect.word())
        };
        match self {
            Problem::Unlisted(difference) => write!(f, "not listed: {difference}"),
            Problem::Stale(e) => write!(f, "differs no more, remove the entry: {}", entry(e)),
            Problem::Unexplained(e) => write!(f, "has no reason: {}", entry(e)),
        }
    }
}
