//! What happened, held against what was expected: `pass < unknown < fail`.
//!
//! Verdicts form a lattice: merging takes the worse one, so that order and grouping of cases and
//! reasons never matter. Missing evidence is `unknown`, never `pass`; nothing at all is `unknown`.

mod expectations;

use ringbreaker_scenarios::words::Verdict;
use serde::Serialize;

pub use expectations::verdict;

/// The verdict on one case, with every reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseVerdict {
    /// The worst of the reasons' verdicts.
    pub verdict: Verdict,
    /// What was checked, also what held; at least one.
    pub reasons: Vec<Reason>,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Whether it held.
    pub verdict: Verdict,
    /// What was checked and found, as a sentence.
    pub sentence: String,
}

/// The worse of two verdicts.
pub fn merge(a: Verdict, b: Verdict) -> Verdict {
    a.max(b)
}

/// The worst of several verdicts; `unknown` for none.
pub fn merge_all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    verdicts.into_iter().reduce(merge).unwrap_or(Verdict::Unknown)
}

impl CaseVerdict {
    /// The reasons that keep the case from passing.
    pub fn objections(&self) -> impl Iterator<Item = &Reason> {
        self.reasons.iter().filter(|reason| reason.verdict != Verdict::Pass)
    }
}
