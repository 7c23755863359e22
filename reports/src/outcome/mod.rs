//! What happened in a case: from its history to one outcome, with the evidence beside it.

mod case_report;

pub use case_report::{
    CaseReport, FaultReport, JobReport, LatencyReport, Moment, RankReport, Spread,
};
