//! The rank's watchdog, after PyTorch's ProcessGroupNCCL (reference: its watchdog loop in releases
//! 2.1 to 2.11): a thread that looks at unfinished work every 100 ms, asks the communicator for its
//! asynchronous error, compares the age with the deadline, and acts by mode.
//!
//! An idle communicator is never asked. In PyTorch no work is enqueued during communicator creation,
//! so only raw NCCL programs have a deadline there; ours is `init_timeout`.

use std::{sync::Arc, thread, time::Duration};

use ringbreaker_scenarios::{
    units::Nanos,
    words::{Detector, ErrorHandling},
};

use super::{
    backend::{CommStatus, Communicator},
    life::{Finding, Flight, Life},
};
use crate::sys::clock;

/// How long after the first look the second one comes, when work is too old.
pub(super) const SECOND_LOOK: Duration = Duration::from_millis(10);

/// What a look at unfinished work finds: the communicator's error comes before the deadline.
pub(super) fn look(flight: &Flight, status: &CommStatus, now: Nanos) -> Option<Finding> {
    // Until a call has taken effect the communicator's error is the caller's to see.
    if let (CommStatus::Failed(error), true) = (status, flight.taken) {
        return Some(Finding {
            detector: Detector::AsyncError,
            code: Some(error.code),
            message: error.message.clone(),
        });
    }
    let deadline = flight.deadline?;
    (now >= deadline).then(|| {
        let what = match flight.op {
            Some(op) => format!("operation {op}"),
            None => "communicator creation".to_owned(),
        };
        Finding {
            detector: Detector::RankWatchdog,
            code: None,
            message: format!(
                "{what} ran for {} before timing out (timeout {})",
                now.since(flight.since),
                deadline.since(flight.since)
            ),
        }
    })
}

/// What a mode makes of a finding, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaction {
    /// Abort the communicator.
    pub(super) abort: bool,
    /// End the process with SIGABRT.
    pub(super) die: bool,
}

/// PyTorch's modes 0 to 3.
pub(super) const fn reaction(mode: ErrorHandling) -> Reaction {
    match mode {
        ErrorHandling::None => Reaction { abort: false, die: false },
        ErrorHandling::Teardown => Reaction { abort: true, die: true },
        ErrorHandling::CleanupOnly => Reaction { abort: true, die: false },
        ErrorHandling::SkipCleanup => Reaction { abort: false, die: true },
    }
}

/// Starts the watchdog. It ends with the process, or after it has acted.
pub(super) fn start(life: &Arc<Life>) -> std::io::Result<()> {
    let life = Arc::clone(life);
    let body = move || watch(&life);
    thread::Builder::new().name("rank-watchdog".to_owned()).spawn(body).map(drop)
}

fn find((flight, communicator): (Flight, Option<Arc<dyn Communicator>>)) -> Option<Finding> {
    let status = communicator.map_or(CommStatus::InProgress, |c| c.status());
    look(&flight, &status, clock::now())
}

/// After a process was stopped and continues, its work looks too old although it may be finished, or
/// its communicator may have failed meanwhile: whoever knows has not run yet. So age alone is believed
/// at the second look only.
fn find_again(life: &Life) -> Option<Finding> {
    thread::sleep(SECOND_LOOK);
    life.unfinished().and_then(find)
}

fn watch(life: &Life) {
    loop {
        thread::sleep(life.plan.poll.into());
        if life.is_aborting() {
            return;
        }
        let Some(mut finding) = life.unfinished().and_then(find) else { continue };
        if finding.detector == Detector::RankWatchdog {
            let Some(confirmed) = find_again(life) else { continue };
            finding = confirmed;
        }
        life.detected(&finding);
        thread::sleep(life.plan.dump_wait.into());
        let reaction = reaction(life.plan.error_handling);
        // Somebody else who aborts meanwhile also decides how the process ends.
        if reaction.abort && !life.abort() {
            return;
        }
        if reaction.die {
            life.die();
        }
        if reaction.abort {
            life.let_leave();
        }
        // Mode none: noted, and nothing done; the work counts as dealt with.
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::backend::CallError, *};

    fn flight(op: Option<u64>, timeout: Option<u64>) -> Flight {
        Flight {
            since: Nanos::from_secs(10),
            deadline: timeout.map(|t| Nanos::from_secs(10 + t)),
            op,
            taken: op.is_some(),
        }
    }

    #[test]
    fn the_error_comes_before_the_deadline_and_creation_has_a_deadline_alone() {
        let failed = CommStatus::Failed(CallError::new(6, "closed"));
        let ready = CommStatus::Ready;
        let pending = Flight { taken: false, ..flight(Some(0), Some(2)) };
        let table = [
            (pending, &failed, 11, None),
            (pending, &failed, 12, Some(Detector::RankWatchdog)),
            (flight(Some(4), Some(2)), &failed, 11, Some(Detector::AsyncError)),
            (flight(Some(4), Some(2)), &failed, 13, Some(Detector::AsyncError)),
            (flight(Some(4), Some(2)), &ready, 11, None),
            (flight(Some(4), Some(2)), &ready, 12, Some(Detector::RankWatchdog)),
            (flight(Some(4), None), &ready, 9999, None),
            (flight(Some(4), None), &failed, 11, Some(Detector::AsyncError)),
            (flight(None, Some(2)), &failed, 11, None),
            (flight(None, Some(2)), &CommStatus::InProgress, 12, Some(Detector::RankWatchdog)),
        ];
        for (flight, status, now, want) in table {
            let found = look(&flight, status, Nanos::from_secs(now)).map(|f| f.detector);
            assert_eq!(found, want, "{flight:?} {status:?} at {now} s");
        }
    }

    #[test]
    fn the_modes_are_pytorchs() {
        let pairs = ErrorHandling::ALL.iter().map(|m| (m.word(), reaction(*m)));
        let table: Vec<_> = pairs.map(|(w, r)| (w, r.abort, r.die)).collect();
        assert_eq!(
            table,
            [
                ("teardown", true, true),
                ("cleanup-only", true, false),
                ("skip-cleanup", false, true),
                ("none", false, false)
            ]
        );
    }
}
