//! The host stand-in's recordings against those of real NCCL: outcome, detector, error class.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{Recording, Repetition};

/// What two recordings of a cell can differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The stand-in has no recording of the cell.
    Missing,
    /// How the case ended.
    Outcome,
    /// Who noticed first.
    Detector,
    /// The error class that the first rank reported; `none` where it reported none.
    ErrorClass,
}

/// The stand-in did something that real NCCL was never recorded to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// Name of the scenario.
    pub scenario: String,
    /// The matrix column.
    pub column: String,
    /// The matrix row.
    pub row: BTreeMap<String, String>,
    /// What differs.
    pub aspect: Aspect,
    /// What real NCCL did, over all repetitions.
    pub recorded: BTreeSet<String>,
    /// What the stand-in did that is not among it.
    pub host: BTreeSet<String>,
}

/// Holds the stand-in against the recordings. Cells are matched by scenario, column and row; where
/// several recordings are about one cell (repetitions, versions), anything that any of them shows is
/// right. Cells that were never recorded are not compared.
pub fn compare(recorded: &[Recording], host: &[Recording]) -> Vec<Difference> {
    let (recorded, host) = (by_cell(recorded), by_cell(host));
    let mut differences = Vec::new();
    for (cell, real) in &recorded {
        let difference = |aspect, recorded, host| Difference {
            scenario: cell.0.to_owned(),
            column: cell.1.to_owned(),
            row: cell.2.clone(),
            aspect,
            recorded,
            host,
        };
        let Some(stand_in) = host.get(cell) else {
            let outcomes = real.iter().map(|r| Aspect::Outcome.of(r)).collect();
            differences.push(difference(Aspect::Missing, outcomes, BTreeSet::new()));
            continue;
        };
        for aspect in [Aspect::Outcome, Aspect::Detector, Aspect::ErrorClass] {
            let right: BTreeSet<String> = real.iter().map(|r| aspect.of(r)).collect();
            let found: BTreeSet<String> = stand_in.iter().map(|r| aspect.of(r)).collect();
            let strange: BTreeSet<String> = found.difference(&right).cloned().collect();
            if !strange.is_empty() {
                differences.push(difference(aspect, right, strange));
            }
        }
    }
    differences
}

type Key<'a> = (&'a str, &'a str, &'a BTreeMap<String, String>);

fn by_cell(recordings: &[Recording]) -> BTreeMap<Key<'_>, Vec<&Repetition>> {
    let mut cells: BTreeMap<Key, Vec<&Repetition>> = BTreeMap::new();
    for recording in recordings {
        let key = (recording.scenario.as_str(), recording.column.as_str(), &recording.row);
        cells.entry(key).or_default().extend(&recording.repetitions);
    }
    cells
}

impl Aspect {
    fn of(self, repetition: &Repetition) -> String {
        match self {
            Aspect::Missing | Aspect::Outcome => repetition.outcome.to_string(),
            Aspect::Detector => repetition.detector.to_string(),
            Aspect::ErrorClass => {
                repetition.error_class.clone().unwrap_or_else(|| "none".to_owned())
            }
        }
    }

    /// Its spelling in files.
    pub const fn word(self) -> &'static str {
        match self {
            Aspect::Missing => "missing",
            Aspect::Outcome => "outcome",
            Aspect::Detector => "detector",
            Aspect::ErrorClass => "error-class",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" or ");
        let row: Vec<String> = self.row.iter().map(|(k, v)| format!("{k}={v}")).collect();
        write!(f, "{} / {} / {}: ", self.scenario, self.column, row.join(" "))?;
        match self.aspect {
            Aspect::Missing => write!(f, "the stand-in was not recorded")?,
            aspect => write!(f, "{} {}", aspect.word(), words(&self.host))?,
        }
        write!(f, ", real NCCL {}", words(&self.recorded))
    }
}
