//! What happened in a case: from its history to one outcome, with the evidence beside it.
//!
//! [`judge`] is total: every history, also an empty or contradictory one, has exactly one outcome.
//! The questions are asked in this order, and the first that is answered decides:
//!
//! | # | what the history shows | outcome |
//! | - | --- | --- |
//! | 1 | the case was unavailable here | `not-runnable` |
//! | 2 | an operation reported success with wrong contents | `wrong-data` |
//! | 3 | interrupted, agent lost, no end of the case or of a rank, or a rank that gave up for a reason of the harness | `not-runnable` |
//! | 4 | faults were planned, all of them wait for steady state, it was never reached, none fired | `not-runnable` |
//! | 5 | a survivor died of a signal that the harness did not send, panicked, or ended with an unexplained code; but not of its own SIGABRT after noticing, in the modes `teardown` and `skip-cleanup` | `crashed` |
//! | 6 | faults were planned and no witness saw any of them take effect | `not-exposed` |
//! | 7 | the harness had to end a survivor, and nobody had noticed | `hung` |
//! | 8 | the same, and one of those ended had noticed and was to abort or end | `abort-hung` |
//! | 9 | the same, and other survivors had ended by themselves | `failed-partial` |
//! | 10 | the same, and nothing acted on the notice (mode `none`) | `hung` |
//! | 11 | every survivor ended by itself, not all with their work done | `failed-clean` |
//! | 12 | every survivor finished its work, and a rank had noticed a failure on the way | `recovered` |
//! | 13 | the same without notice, slower than the clean tail | `degraded` |
//! | 14 | the same | `completed` |
//!
//! Wrong contents come before a case cut short, because nothing that follows makes them right.
//!
//! A *survivor* is a rank that no fault took out of the game. Not survivors: the target of a `kill`
//! that fired; the target of a `limit_memory` that fired, if a signal ended it; the target of a
//! `stop` that fired and was not continued before the case ended. That the kernel ends such a target
//! (OOM killer) is the effect of the fault, not a detection of it.

mod case_report;
mod codes;
mod decide;
mod evidence;
mod faults;
mod job;
mod latency;
mod ranks;
pub(crate) mod sentence;

pub use case_report::{
    CaseReport, FaultReport, JobReport, LatencyReport, Moment, RankReport, Spread,
};
pub use codes::error_class;
pub use latency::{CLEAN_ENOUGH, SLOWER_FACTOR, SLOWER_MARGIN, STALL_FACTOR, STALL_MARGIN};

use crate::history::CaseHistory;

/// Judges one attempt at one case.
pub fn judge(history: &CaseHistory) -> CaseReport {
    let evidence = evidence::Evidence::of(history);
    let faults = faults::report(&evidence);
    let ranks = ranks::report(&evidence, &faults);
    let job = job::report(&evidence, &ranks, &faults);
    let latency = latency::report(&evidence, &ranks, &faults);
    let (outcome, why) = decide::decide(&decide::Facts {
        evidence: &evidence,
        ranks: &ranks,
        faults: &faults,
        job: &job,
        latency: &latency,
    });
    CaseReport {
        outcome,
        why,
        ranks,
        job,
        faults,
        latency,
        unread: evidence.unread,
        stack: evidence.stack,
        transport: evidence.transport.map(str::to_owned),
        isolation: evidence.isolation,
    }
}
