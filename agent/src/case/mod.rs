//! One case on this node, from `Prepare` to `Finish`.
//!
//! The service makes a [`Case`] and passes commands on. A case has one thread of its own, which does
//! everything in order: it hears the ranks and the commands, lets the pure engine in `triggers`
//! decide when faults fire, and carries that out. Nothing on it waits for the async runtime, so
//! that little stands between a trigger and its effect.
//!
//! ```text
//! Preparing --all Ready--> Ready --Begin--> Running --Finish--> ended
//!     |  refused: cannot be carried out here; everything is taken down again
//! ```
//!
//! Guarantees: whatever happens, the case ends with no fault in force, no rank alive and no node
//! left, or says what is left. It judges nothing.

mod assignment;
mod environment;
mod equipment;
mod error;
mod exposed;
mod faults;
mod finish;
mod history;
mod input;
mod life;
mod logs;
mod mps;
mod ranks;
mod settings;
mod site;
mod triggers;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    thread,
};

use ringbreaker_scenarios::event::{EndReason, Isolation};
use tokio::sync::oneshot;

pub use assignment::{Assignment, CaseId};
pub use error::CaseError;
pub use input::Answer;
pub use settings::unread;

use self::{history::History, input::Input};
use crate::{gpu, journal::Journal, spool::Spool, stop::Switch};

/// How many words of ranks and commands may wait while an injector works.
const INBOX: usize = 4096;

/// What a case stands on: this agent and its machine.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// How ranks are kept apart.
    pub isolation: Isolation,
    /// Where what must be undone is written.
    pub journal: Arc<Journal>,
    /// The agent's own directory, which vanishes with it.
    pub home: PathBuf,
    /// Looked at before every injection.
    pub switch: Switch,
    /// Where observations go.
    pub spool: Arc<Spool>,
    /// The copy of libnccl to use when the plan names none.
    pub nccl: Option<PathBuf>,
    /// How many GPUs there are.
    pub gpus: u32,
    /// What was free on them before the first case.
    pub idle_gpus: gpu::Idle,
    /// Keep black boxes and specs of ranks, for debugging.
    pub keep: bool,
}

/// A case in flight. Dropping it ends the case as interrupted.
#[derive(Debug)]
pub struct Case {
    id: CaseId,
    inbox: SyncSender<Input>,
    over: Arc<AtomicBool>,
}

impl Case {
    /// Begins to prepare a case. `answer` is answered when all ranks are ready, or refused when the
    /// case cannot be carried out here; it has ended then.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn prepare(
        assignment: Assignment,
        surroundings: Surroundings,
        answer: Answer,
    ) -> io::Result<Case> {
        let id = assignment.case.clone();
        let (inbox, heard) = mpsc::sync_channel(INBOX);
        let history = History::new(Arc::clone(&surroundings.spool), id.clone());
        let over = Arc::new(AtomicBool::new(false));
        let (to_self, ended) = (inbox.clone(), Arc::clone(&over));
        thread::Builder::new().name(format!("case-{}", id.index)).spawn(move || {
            let last_words =
                life::live(&assignment, &surroundings, history, &to_self, &heard, answer);
            // Whoever hears the answer may hand out the next case at once.
            ended.store(true, Ordering::Release);
            last_words.say();
        })?;
        Ok(Case { id, inbox, over })
    }

    /// Which case.
    pub fn id(&self) -> &CaseId {
        &self.id
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets the ranks initialise; faults fire by their triggers from here on. May block while the
    /// case is busy, as all commands may.
    pub fn begin(&self, answer: Answer) {
        self.say(Input::Begin(answer));
    }

    /// Tells all ranks to abort.
    pub fn abort_ranks(&self, answer: Answer) {
        self.say(Input::AbortRanks(answer));
    }

    /// Ends the case. Answered when its last observation is spooled.
    pub fn finish(&self, because: EndReason, answer: Answer) {
        self.say(Input::Finish(because, answer));
    }

    /// The controller was heard: the leases of all faults are renewed. Never blocks.
    pub fn renew(&self) {
        // A case that is too busy to hear this one hears the next.
        drop(self.inbox.try_send(Input::Renewed));
    }

    /// A case that has ended drops the answer, which its asker sees.
    fn say(&self, input: Input) {
        drop(self.inbox.send(input));
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let (nobody, _) = oneshot::channel();
        drop(self.inbox.try_send(Input::Finish(EndReason::Interrupted, nobody)));
    }
}
