//! What stands out in a run, as sentences: general rules over the matrix.
//!
//! A rule never knows the name of a scenario, a setting or a fault. It speaks only where the
//! evidence is there; a run without findings is a run in which nothing stood out.

mod alike;
mod coverage;
mod noticing;
mod settings;
mod which;

use ringbreaker_scenarios::case::CasePlan;
use serde::Serialize;

use super::{CaseResult, Matrix};

/// One sentence, and how much it matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// The sentence.
    pub sentence: String,
}

/// How much a finding matters. Ordered: the weightiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Results or the machine are not to be trusted.
    Alarm,
    /// A job hung, crashed or left something behind, or a setting did nothing.
    Warning,
    /// Worth knowing.
    Remark,
}

/// What the rules look at.
struct Run<'a> {
    cases: &'a [CaseResult],
    pending: &'a [CasePlan],
    matrix: &'a Matrix,
}

/// Applies every rule; the weightiest findings first, else in the order of the rules.
pub(super) fn find(cases: &[CaseResult], pending: &[CasePlan], matrix: &Matrix) -> Vec<Finding> {
    let run = Run { cases, pending, matrix };
    let rules: [fn(&Run) -> Vec<Finding>; 11] = [
        coverage::harness_traces,
        noticing::wrong_data,
        noticing::by_column,
        noticing::crashes,
        noticing::slower,
        noticing::late_neighbours,
        noticing::false_blame,
        settings::unread,
        settings::without_difference,
        coverage::job_leftovers,
        coverage::not_measured,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(&run)).collect();
    findings.sort_by_key(|finding| finding.weight);
    findings
}

impl Finding {
    fn alarm(sentence: String) -> Finding {
        Finding { weight: Weight::Alarm, sentence }
    }

    fn warning(sentence: String) -> Finding {
        Finding { weight: Weight::Warning, sentence }
    }

    fn remark(sentence: String) -> Finding {
        Finding { weight: Weight::Remark, sentence }
    }
}

impl Run<'_> {
    fn cases_of<'a>(&'a self, cell: &'a super::Cell) -> impl Iterator<Item = &'a CaseResult> {
        cell.cases.iter().map(|&at| &self.cases[at])
    }
}
