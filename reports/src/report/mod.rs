//! All cases of a run together: the matrix, the findings, the verdict.
//!
//! Every document in [`crate::render`] is written from a [`RunReport`] and from nothing else.

mod findings;
mod matrix;
mod reproduce;

use ringbreaker_scenarios::{case::CasePlan, words::Verdict};
use serde::Serialize;

pub use findings::{Finding, Weight};
pub use matrix::{Cell, Matrix, Row, UNSWEPT};

use crate::{
    history::{CaseHistory, RunHeader, RunHistory},
    outcome::{self, CaseReport},
    verdict::{self, CaseVerdict},
};

/// A run, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// About the run.
    pub header: RunHeader,
    /// Every attempted case, in order.
    pub cases: Vec<CaseResult>,
    /// Cases that were planned and never attempted.
    pub pending: Vec<CasePlan>,
    /// Settings down, faults across.
    pub matrix: Matrix,
    /// What stands out, as sentences.
    pub findings: Vec<Finding>,
    /// The worst verdict of all cases; at least `unknown` while cases are pending.
    pub verdict: Verdict,
}

/// One case, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseResult {
    /// What was planned and observed.
    pub history: CaseHistory,
    /// What that means.
    pub report: CaseReport,
    /// That, held against the expectations.
    pub verdict: CaseVerdict,
    /// The command that runs this case again.
    pub reproduce: String,
}

impl From<RunHistory> for RunReport {
    fn from(run: RunHistory) -> RunReport {
        let RunHistory { header, cases, pending } = run;
        let cases: Vec<CaseResult> =
            cases.into_iter().map(|history| CaseResult::of(history, &header)).collect();
        let pending_verdict = (!pending.is_empty()).then_some(Verdict::Unknown);
        let verdict =
            verdict::merge_all(cases.iter().map(|c| c.verdict.verdict).chain(pending_verdict));
        let matrix = Matrix::of(&cases, &pending);
        let findings = findings::find(&cases, &pending, &matrix);
        RunReport { header, cases, pending, matrix, findings, verdict }
    }
}

impl CaseResult {
    /// Judges one case, such as for a progress display.
    pub fn of(history: CaseHistory, header: &RunHeader) -> CaseResult {
        let report = outcome::judge(&history);
        let verdict = verdict::verdict(&report, &history.plan);
        let reproduce = reproduce::command(header, &history.plan);
        CaseResult { history, report, verdict, reproduce }
    }
}

impl RunReport {
    /// The sentence that every document shows first when the ranks were no real NCCL.
    pub fn notice(&self) -> Option<&'static str> {
        use ringbreaker_scenarios::words::Backend;
        match self.header.backend {
            Backend::Host => {
                Some("host stand-in: rehearses the harness, says nothing about your NCCL")
            }
            Backend::Nccl => None,
        }
    }

    /// How many cases have each verdict: pass, unknown, fail.
    pub fn counts(&self) -> [(Verdict, usize); 3] {
        [Verdict::Pass, Verdict::Unknown, Verdict::Fail]
            .map(|v| (v, self.cases.iter().filter(|c| c.verdict.verdict == v).count()))
    }
}
