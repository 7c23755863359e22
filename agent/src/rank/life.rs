//! The state that the threads of a rank share: what is in flight, what was noticed, who aborts.

use std::{
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use ringbreaker_scenarios::{
    case::WatchdogPlan,
    event::{Detection, What},
    units::Nanos,
    words::{Detector, Phase},
};

use super::{
    backend::{CallError, Communicator},
    link::Link,
};
use crate::sys::clock;

/// Something unfinished that a deadline applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// When it began.
    pub(super) since: Nanos,
    /// When it should have ended; none: never.
    pub(super) deadline: Option<Nanos>,
    /// The operation's number; none: communicator creation.
    pub(super) op: Option<u64>,
    /// The call that began it has taken effect: what goes wrong from here on is an asynchronous
    /// error, and no longer the call's own.
    pub(super) taken: bool,
}

/// What was noticed, by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// What noticed.
    pub(super) detector: Detector,
    /// The code, where there is one.
    pub(super) code: Option<i32>,
    /// In words.
    pub(super) message: String,
}

impl Finding {
    /// An error that a call returned.
    pub(super) fn call(error: &CallError) -> Finding {
        Finding {
            detector: Detector::CallError,
            code: Some(error.code),
            message: error.message.clone(),
        }
    }
}

struct State {
    phase: Phase,
    flight: Option<Flight>,
    communicator: Option<Arc<dyn Communicator>>,
    detected: bool,
}

/// The shared state of a rank.
pub(super) struct Life {
    pub(super) plan: WatchdogPlan,
    link: Link,
    state: Mutex<State>,
    aborting: AtomicBool,
    /// The main thread, having found the communicator aborted, may end the process.
    may_leave: (Mutex<bool>, Condvar),
}

impl Life {
    pub(super) fn new(plan: WatchdogPlan, link: Link) -> Life {
        let state =
            State { phase: Phase::BeforeInit, flight: None, communicator: None, detected: false };
        Life {
            plan,
            link,
            state: Mutex::new(state),
            aborting: AtomicBool::new(false),
            may_leave: Default::default(),
        }
    }

    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while holding it left plain values behind, all of them valid.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Enters a phase and says so, unless the rank is in it already.
    pub(super) fn enter(&self, phase: Phase) {
        {
            let mut state = self.state();
            if state.phase == phase {
                return;
            }
            state.phase = phase;
        }
        self.link.observe(What::PhaseEntered { phase });
    }

    /// Communicator creation has begun; what was asked of it can now be aborted.
    pub(super) fn holds(&self, communicator: Arc<dyn Communicator>) {
        self.state().communicator = Some(communicator);
    }

    /// Something with a deadline begins, now.
    pub(super) fn takes_off(&self, timeout: Option<Nanos>, op: Option<u64>) {
        let since = clock::now();
        let deadline = timeout.map(|t| since + t);
        self.state().flight = Some(Flight { since, deadline, op, taken: false });
    }

    /// The call that began it has taken effect.
    pub(super) fn taken(&self) {
        if let Some(flight) = &mut self.state().flight {
            flight.taken = true;
        }
    }

    /// It ended.
    pub(super) fn lands(&self) {
        self.state().flight = None;
    }

    /// What is unfinished, and the communicator that would know.
    pub(super) fn unfinished(&self) -> Option<(Flight, Option<Arc<dyn Communicator>>)> {
        let state = self.state();
        state.flight.map(|flight| (flight, state.communicator.clone()))
    }

    /// Reports the first detection of this rank; later ones are consequences.
    pub(super) fn detected(&self, finding: &Finding) {
        let (phase, op) = {
            let mut state = self.state();
            if std::mem::replace(&mut state.detected, true) {
                return;
            }
            (state.phase, state.flight.and_then(|f| f.op))
        };
        self.link.observe(What::Detected(Detection {
            detector: finding.detector,
            phase,
            code: finding.code,
            message: finding.message.clone(),
            op,
            blames: blamed(&finding.message),
        }));
    }

    /// Whether results no longer mean anything.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Acquire)
    }

    /// Aborts the communicator, once; whoever comes second returns at once, with `false`. Who aborts
    /// also decides how the process ends, and calls [`Life::let_leave`] unless it is to die.
    pub(super) fn abort(&self) -> bool {
        if self.aborting.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Without one there is nothing to abort; the flag alone stops the main thread.
        let communicator = self.state().communicator.clone();
        if let Some(communicator) = communicator {
            self.enter(Phase::Abort);
            self.link.observe(What::AbortBegan);
            let code = communicator.abort();
            self.link.observe(What::AbortEnded { code });
        }
        true
    }

    /// Lets the main thread end the process.
    pub(super) fn let_leave(&self) {
        let (may, changed) = &self.may_leave;
        *may.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        changed.notify_all();
    }

    /// For the main thread that finds its communicator aborted by another: leaving now would cut the
    /// abort short, or come before the SIGABRT that the process is to die of.
    pub(super) fn await_leave(&self) {
        let (may, changed) = &self.may_leave;
        let may = may.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        drop(changed.wait_while(may, |may| !*may));
    }

    /// Ends the process as an uncaught C++ exception would: SIGABRT.
    pub(super) fn die(&self) -> ! {
        process::abort()
    }
}

/// The rank that a message names as the cause, as in "rank 3", if it names exactly one.
fn blamed(message: &str) -> Option<u32> {
    let mut named = message.match_indices("rank ").filter_map(|(at, word)| {
        let digits = &message[at + word.len()..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    });
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_blames_a_rank_only_when_it_names_one_and_only_one() {
        for (message, want) in [
            ("Connection closed by remote peer 10.77.0.2<41234>", None),
            ("lost connection to rank 3", Some(3)),
            ("rank 3 waits for rank 1", None),
            ("rank 3: rank 3 is gone", Some(3)),
            ("a rank died", None),
        ] {
            assert_eq!(blamed(message), want, "{message}");
        }
    }
}
