//! Where commands are carried out, each once, and where the one case of this agent is held.
//!
//! Outlives the streams: what finishes while there is none is answered when the command is repeated.

use std::{io, sync::Arc, time::Duration};

use ringbreaker_proto::v1::{self, answer::Result as Outcome, command::Action};
use ringbreaker_scenarios::event::EndReason;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time,
};

use super::{
    answers::{Answers, Known},
    watch::InFlight,
};
use crate::{
    case::{self, Answer, Case, CaseId, Surroundings},
    stop::Stopped,
    wire,
};

/// Results that wait to be taken.
const RESULTS: usize = 64;
/// Why a command was not carried out.
const UNHEARD: &str = "the case ended before it was answered";
/// How long a case may take to heal when the kill switch is engaged.
const HEALED_WITHIN: Duration = Duration::from_secs(60);

/// The commands and the case of one agent.
pub(super) struct Desk {
    surroundings: Surroundings,
    case: Option<Arc<Case>>,
    answers: Answers,
    results: mpsc::Receiver<(u64, Outcome)>,
    to_results: mpsc::Sender<(u64, Outcome)>,
    leaving: bool,
    in_flight: InFlight,
    stopped: watch::Receiver<Option<Stopped>>,
}

impl Desk {
    /// `stopped` is what the watch of the kill switch sees; it finds the case by `in_flight`.
    pub(super) fn new(
        surroundings: Surroundings,
        in_flight: InFlight,
        stopped: watch::Receiver<Option<Stopped>>,
    ) -> Desk {
        let (to_results, results) = mpsc::channel(RESULTS);
        let (case, answers, leaving) = (None, Answers::default(), false);
        Desk { surroundings, case, answers, results, to_results, leaving, in_flight, stopped }
    }

    /// The kill switch, as it was seen last.
    pub(super) fn stopped(&self) -> watch::Receiver<Option<Stopped>> {
        self.stopped.clone()
    }

    /// Takes a command; an answer that is known already comes at once, others by [`Desk::answer`].
    pub(super) fn take(&mut self, command: v1::Command) -> Option<v1::Answer> {
        match self.answers.arrived(command.id) {
            Known::Answered(answer) => Some(answer),
            Known::InHand => None,
            Known::New => match self.carry_out(command.id, command.action) {
                Ok(()) => None,
                Err(reason) => Some(self.answers.settle(command.id, refused(reason))),
            },
        }
    }

    /// The next answer to a command that took its time.
    pub(super) async fn answer(&mut self) -> v1::Answer {
        loop {
            if let Some((command, outcome)) = self.results.recv().await {
                return self.answers.settle(command, outcome);
            }
            // Never: we hold a sender ourselves.
            std::future::pending::<()>().await;
        }
    }

    /// The case in flight.
    pub(super) fn case(&self) -> Option<&Case> {
        self.case.as_deref().filter(|case| !case.is_over())
    }

    /// The controller told this agent to leave.
    pub(super) fn leaving(&self) -> bool {
        self.leaving
    }

    /// Whether every command is answered.
    pub(super) fn idle(&self) -> bool {
        self.answers.idle()
    }

    /// Ends the case in flight, if there is one, and returns when it has ended.
    pub(super) async fn end_case(&mut self, because: EndReason) {
        let Some(case) = self.case.take().filter(|case| !case.is_over()) else { return };
        let (answer, ended) = oneshot::channel();
        tell(case, move |case| case.finish(because, answer));
        match ended.await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(reason)) => tracing::warn!(reason, "the case did not end in order"),
        }
    }

    fn carry_out(&mut self, command: u64, action: Option<Action>) -> Result<(), String> {
        match action {
            Some(Action::Prepare(prepare)) => self.prepare(command, prepare),
            Some(Action::Begin(v1::Begin { case })) => {
                let (case, answer) = (self.held(case)?, self.answer_to(command));
                tell(case, |case| case.begin(answer));
                Ok(())
            }
            Some(Action::AbortRanks(v1::AbortRanks { case })) => {
                let (case, answer) = (self.held(case)?, self.answer_to(command));
                tell(case, |case| case.abort_ranks(answer));
                Ok(())
            }
            Some(Action::Finish(finish)) => self.finish(command, finish),
            Some(Action::ExamineSettings(examine)) => self.examine(command, examine),
            Some(Action::Leave(v1::Leave {})) => {
                self.leaving = true;
                self.finish_any(command, EndReason::Interrupted);
                Ok(())
            }
            Some(Action::StopInjections(stop)) => {
                self.stop(command, wire::stopped(stop));
                Ok(())
            }
            // protobuf drops a member of a `oneof` that it does not know.
            None => Err(format!(
                "this agent (version {}) does not know that command; start an agent of the \
                 controller's version",
                env!("CARGO_PKG_VERSION")
            )),
        }
    }

    fn prepare(&mut self, command: u64, prepare: v1::Prepare) -> Result<(), String> {
        let assignment = wire::assignment(prepare).map_err(|error| error.to_string())?;
        if let Some(case) = self.case() {
            return Err(format!("this agent is busy with {}", case.id()));
        }
        if self.leaving {
            return Err("this agent is leaving".to_owned());
        }
        if let Some(stopped) = self.stopped.borrow().as_ref() {
            return Err(stopped.to_string());
        }
        let answer = self.answer_to(command);
        let case = Case::prepare(assignment, self.surroundings.clone(), answer)
            .map_err(|error| format!("could not start a thread for the case: {error}"))?;
        let case = Arc::new(case);
        self.in_flight.set(&case);
        self.case = Some(case);
        Ok(())
    }

    fn finish(&mut self, command: u64, finish: v1::Finish) -> Result<(), String> {
        let v1::Finish { case, because } = finish;
        let because = wire::end_reason(&because).map_err(|error| error.to_string())?;
        match self.held(case) {
            Ok(_) => self.finish_any(command, because),
            // A case that was refused, or has ended by itself: nothing of it is left to finish.
            Err(_) => self.settle_later(command, Outcome::Done(v1::Done {})),
        }
        Ok(())
    }

    /// Finishes the case in flight, if there is one.
    fn finish_any(&mut self, command: u64, because: EndReason) {
        match self.case.clone().filter(|case| !case.is_over()) {
            Some(case) => {
                let (answer, ended) = oneshot::channel();
                let (ending, results) = (Arc::clone(&case), self.to_results.clone());
                tokio::spawn(async move {
                    let outcome = match ended.await {
                        Ok(Err(reason)) => refused(reason),
                        // It had ended before it heard this.
                        Err(_) if !ending.is_over() => refused(UNHEARD.to_owned()),
                        Ok(Ok(())) | Err(_) => Outcome::Done(v1::Done {}),
                    };
                    drop(results.send((command, outcome)).await);
                });
                tell(case, move |case| case.finish(because, answer));
            }
            None => self.settle_later(command, Outcome::Done(v1::Done {})),
        }
    }

    /// Engages the kill switch; whoever watches it ends the case. Answered when nothing is in force.
    fn stop(&self, command: u64, stopped: Stopped) {
        let Surroundings { switch, journal, .. } = self.surroundings.clone();
        let (case, results) = (self.case.clone(), self.to_results.clone());
        tokio::spawn(async move {
            let engaged = tokio::task::spawn_blocking(move || switch.engage(&stopped)).await;
            let engaged = engaged.map_err(io::Error::other).and_then(|engaged| engaged);
            let healed = time::timeout(HEALED_WITHIN, async {
                while case.as_ref().is_some_and(|case| !case.is_over()) {
                    time::sleep(Duration::from_millis(5)).await;
                }
            });
            let pending = match healed.await {
                Ok(()) => journal.pending().into_iter().map(|(_, undo)| undo.to_string()).collect(),
                Err(_) => vec![format!("the case has not ended within {HEALED_WITHIN:?}")],
            };
            let outcome = match engaged {
                Err(error) => refused(format!("the kill switch could not be engaged: {error}")),
                Ok(()) if pending.is_empty() => Outcome::Done(v1::Done {}),
                Ok(()) => refused(format!("not healed: {}", pending.join("; "))),
            };
            drop(results.send((command, outcome)).await);
        });
    }

    fn examine(&mut self, command: u64, examine: v1::ExamineSettings) -> Result<(), String> {
        let v1::ExamineSettings { backend, names, nccl_path } = examine;
        let backend = wire::backend(&backend).map_err(|error| error.to_string())?;
        let library = wire::path(&nccl_path).or_else(|| self.surroundings.nccl.clone());
        let results = self.to_results.clone();
        tokio::task::spawn_blocking(move || {
            let outcome = match case::unread(backend, &names, library.as_deref()) {
                Ok(unread) => Outcome::Settings(wire::findings(&names, &unread)),
                Err(error) => refused(format!("could not read libnccl: {error}")),
            };
            // Nobody waits any more when the agent has ended.
            drop(results.blocking_send((command, outcome)));
        });
        Ok(())
    }

    /// The case in flight, if it is this one.
    fn held(&self, case: Option<v1::CaseRef>) -> Result<Arc<Case>, String> {
        let wanted: CaseId = wire::case_id(case).map_err(|error| error.to_string())?;
        let held = self.case.clone().filter(|case| !case.is_over() && *case.id() == wanted);
        held.ok_or_else(|| format!("this agent does not hold {wanted}"))
    }

    /// Where the case puts its answer to a command.
    fn answer_to(&self, command: u64) -> Answer {
        let (answer, given) = oneshot::channel();
        let results = self.to_results.clone();
        tokio::spawn(async move {
            let outcome = match given.await {
                Ok(Ok(())) => Outcome::Done(v1::Done {}),
                Ok(Err(reason)) => refused(reason),
                Err(_) => refused(UNHEARD.to_owned()),
            };
            drop(results.send((command, outcome)).await);
        });
        answer
    }

    fn settle_later(&self, command: u64, outcome: Outcome) {
        let results = self.to_results.clone();
        tokio::spawn(async move { drop(results.send((command, outcome)).await) });
    }
}

fn refused(reason: String) -> Outcome {
    Outcome::Refused(v1::Refused { reason })
}

/// Says something to a case, which may be busy for a while.
fn tell(case: Arc<Case>, say: impl FnOnce(&Case) + Send + 'static) {
    tokio::task::spawn_blocking(move || say(&case));
}
