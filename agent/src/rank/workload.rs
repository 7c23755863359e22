//! What a rank does: create the communicator, warm up, wait for the others, run its operations.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use ringbreaker_scenarios::{
    event::What,
    units::Nanos,
    words::{Detector, Phase},
};

use super::{
    backend::{CallError, Check, CommStatus, Communicator, Handover, Library, Op, OpStatus},
    blackbox::BlackBox,
    checkpoint,
    life::{Finding, Life},
    protocol::{EXIT_AFTER_ERROR, EXIT_FINISHED, EXIT_HARNESS, FromRank, RankSpec, ToRank},
    watchdog,
};
use crate::sys::clock;

/// How often the main thread looks, as PyTorch's blocking wait does.
const LOOK: Duration = Duration::from_millis(1);
/// How often it looks up from an operation that a watchdog looks after. The end of the operation
/// wakes it at once; only an abort has to wait for this.
const WATCHED_LOOK: Duration = Duration::from_millis(10);
/// How long leaving in good order may take.
const FINALIZE: Duration = Duration::from_secs(5);

/// Why the work stopped before it was finished; what was noticed is reported already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stopped;

/// The main thread of a rank.
pub(super) struct Workload<'a> {
    pub(super) spec: &'a RankSpec,
    pub(super) life: &'a Arc<Life>,
    pub(super) library: &'a dyn Library,
    pub(super) commands: &'a Receiver<ToRank>,
    pub(super) black_box: Option<BlackBox>,
}

impl Workload<'_> {
    /// Runs to the end; returns the exit code.
    pub(super) fn run(&self) -> i32 {
        match self.work() {
            Ok(code) => code,
            Err(Stopped) => {
                if self.life.is_aborting() {
                    self.life.await_leave();
                }
                self.life.enter(Phase::Done);
                EXIT_AFTER_ERROR
            }
        }
    }

    fn work(&self) -> Result<i32, Stopped> {
        let Some(id) = self.await_id()? else { return Ok(EXIT_HARNESS) };
        self.life.enter(Phase::Init);
        let communicator = self.create(&id)?;
        let warmup = u64::from(self.spec.workload.warmup);
        for number in 0..warmup {
            self.life.enter(if number == 0 { Phase::FirstOp } else { Phase::Steady });
            self.operation(communicator.as_ref(), number)?;
        }
        // Connections exist only now.
        if let Some(name) = communicator.transport() {
            self.life.link().observe(What::Transport { name });
        }
        self.life.link().say(&FromRank::WarmedUp);
        match self.commands.recv() {
            Ok(ToRank::Go) => {}
            Ok(ToRank::Abort) => return Err(Stopped),
            _ => return Ok(EXIT_HARNESS),
        }
        for iteration in 0..self.spec.workload.iterations {
            let number = warmup + u64::from(iteration);
            self.life.enter(if number == 0 { Phase::FirstOp } else { Phase::Steady });
            if self.spec.announce.contains(&iteration) {
                self.life.link().observe(What::IterationReached { iteration });
            }
            self.operation(communicator.as_ref(), number)?;
            self.checkpoint(iteration)?;
            thread::sleep(self.spec.workload.interval.into());
        }
        self.leave(communicator.as_ref())
    }

    /// Makes the id when asked to, and waits for it otherwise; none: the agent says something else.
    fn await_id(&self) -> Result<Option<Vec<u8>>, Stopped> {
        let mut begun = false;
        loop {
            match self.command(begun)? {
                Some(ToRank::MakeId) => {
                    let id = self.library.make_id().map_err(|e| self.refused(&e))?;
                    self.life.link().say(&FromRank::Id { id: to_hex(&id) });
                }
                Some(ToRank::AwaitId) => {
                    self.life.takes_off(self.life.plan.init_timeout, None);
                    begun = true;
                }
                Some(ToRank::Init { id }) => return Ok(from_hex(&id)),
                Some(ToRank::Abort) => return Err(Stopped),
                _ => return Ok(None),
            }
        }
    }

    /// The agent's next command; none: it is gone. A watched wait ends when the watchdog has acted.
    fn command(&self, watched: bool) -> Result<Option<ToRank>, Stopped> {
        loop {
            if !watched {
                return Ok(self.commands.recv().ok());
            }
            match self.commands.recv_timeout(WATCHED_LOOK) {
                Ok(command) => return Ok(Some(command)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.still_ours()?,
            }
        }
    }

    fn create(&self, id: &[u8]) -> Result<Arc<dyn Communicator>, Stopped> {
        self.life.takes_off(self.life.plan.init_timeout, None);
        let (rank, world) = (self.spec.rank, self.spec.world);
        let begun = self.library.begin_init(id, rank, world);
        let communicator = begun.map_err(|e| self.refused(&e))?;
        self.life.holds(Arc::clone(&communicator));
        self.accepted(communicator.as_ref())?;
        self.life.lands();
        Ok(communicator)
    }

    /// Waits until the communicator has taken the last call.
    fn accepted(&self, communicator: &dyn Communicator) -> Result<(), Stopped> {
        // Connections and allocations take milliseconds at first and nothing later: look often at
        // first, then seldom.
        let mut pause = Duration::from_micros(20);
        loop {
            self.still_ours()?;
            match communicator.status() {
                CommStatus::Ready => return Ok(()),
                CommStatus::Failed(error) => return Err(self.refused(&error)),
                CommStatus::InProgress => {}
            }
            self.blocking_wait(communicator)?;
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }

    fn operation(&self, communicator: &dyn Communicator, number: u64) -> Result<(), Stopped> {
        let op = self.op(number);
        let refused = |e: CallError| self.refused(&e);
        communicator.prepare(&op).map_err(refused)?;
        self.still_ours()?;
        let plan = &self.life.plan;
        let first = plan.first_op_timeout.filter(|_| number == 0);
        self.life.takes_off(first.or(plan.op_timeout), Some(number));
        if let Some(black_box) = &self.black_box {
            black_box.enqueued(&op, number < self.spec.workload.warmup.into(), clock::now());
        }
        if communicator.enqueue(&op).map_err(refused)? == Handover::Pending {
            self.accepted(communicator)?;
        }
        self.life.taken();
        self.finished(communicator)?;
        self.life.lands();
        if let Some(black_box) = &self.black_box {
            black_box.ended(&op, clock::now());
        }
        if self.spec.workload.check { self.check(communicator, &op) } else { Ok(()) }
    }

    fn op(&self, number: u64) -> Op {
        let workload = &self.spec.workload;
        let (sizes, kinds) = (workload.bytes.len() as u64, workload.collectives.len() as u64);
        Op {
            number,
            collective: workload.collectives[(number % kinds) as usize],
            dtype: workload.dtype,
            // Every collective meets every size.
            bytes: workload.bytes[((number / kinds) % sizes) as usize].0,
        }
    }

    fn finished(&self, communicator: &dyn Communicator) -> Result<(), Stopped> {
        let slice = if self.life.plan.blocking_wait { LOOK } else { WATCHED_LOOK };
        loop {
            let status = communicator.wait(slice);
            // An aborted operation's event reports success too: the flag comes first
            // (measured on NCCL 2.28.3 and 2.28.9).
            self.still_ours()?;
            match status {
                OpStatus::Finished => return Ok(()),
                OpStatus::Failed(error) => return Err(self.refused(&error)),
                OpStatus::Running => self.blocking_wait(communicator)?,
            }
        }
    }

    fn check(&self, communicator: &dyn Communicator, op: &Op) -> Result<(), Stopped> {
        let check = communicator.check(op).map_err(|e| self.refused(&e))?;
        self.still_ours()?;
        if let Some(black_box) = &self.black_box {
            black_box.checked(op, check == Check::Right);
        }
        let Check::Wrong { element, expected, found } = check else { return Ok(()) };
        let message =
            format!("operation {}: element {element} is {found}, not {expected}", op.number);
        self.life.link().observe(What::WrongData { op: op.number, expected, found, element });
        self.life.detected(&Finding { detector: Detector::DataCheck, code: None, message });
        Err(Stopped)
    }

    /// Writes a checkpoint where this rank is to write one after this iteration. A script whose
    /// checkpoint fails ends.
    fn checkpoint(&self, iteration: u32) -> Result<(), Stopped> {
        let (Some(plan), Some(path)) = (&self.spec.workload.checkpoint, &self.spec.checkpoint)
        else {
            return Ok(());
        };
        if !(iteration + 1).is_multiple_of(plan.every) {
            return Ok(());
        }
        let begun = clock::now();
        match checkpoint::write(path, plan.bytes) {
            Ok(()) => {
                let took = clock::now().since(begun);
                self.life.link().observe(What::CheckpointWritten { iteration, took });
                Ok(())
            }
            Err(error) => {
                let message = format!("the checkpoint after iteration {iteration}: {error}");
                self.life.detected(&Finding {
                    detector: Detector::Checkpoint,
                    code: None,
                    message,
                });
                Err(Stopped)
            }
        }
    }

    /// What TORCH_NCCL_BLOCKING_WAIT does: the waiting thread looks itself, aborts, and raises.
    fn blocking_wait(&self, communicator: &dyn Communicator) -> Result<(), Stopped> {
        if !self.life.plan.blocking_wait {
            return Ok(());
        }
        let Some((flight, _)) = self.life.unfinished() else { return Ok(()) };
        let look = || watchdog::look(&flight, &communicator.status(), clock::now());
        let Some(mut found) = look() else { return Ok(()) };
        if found.detector == Detector::RankWatchdog {
            // As the watchdog does: age alone is believed at the second look.
            thread::sleep(watchdog::SECOND_LOOK);
            let over = flight.taken && communicator.wait(Duration::ZERO) == OpStatus::Finished;
            match look() {
                Some(confirmed) if !over => found = confirmed,
                _ => return Ok(()),
            }
        }
        self.life.detected(&found);
        if self.life.abort() {
            self.life.let_leave();
        }
        Err(Stopped)
    }

    /// Refuses to go on once somebody aborts.
    fn still_ours(&self) -> Result<(), Stopped> {
        if self.life.is_aborting() { Err(Stopped) } else { Ok(()) }
    }

    /// A call failed: the caller sees it, as PyTorch's caller sees a DistBackendError.
    fn refused(&self, error: &CallError) -> Stopped {
        if !self.life.is_aborting() {
            self.life.detected(&Finding::call(error));
        }
        Stopped
    }

    fn leave(&self, communicator: &dyn Communicator) -> Result<i32, Stopped> {
        self.life.enter(Phase::Done);
        let timeout = self.life.plan.op_timeout.unwrap_or(Nanos::from(FINALIZE));
        communicator.finalize(timeout.into()).map_err(|e| self.refused(&e))?;
        Ok(EXIT_FINISHED)
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = |i: usize| text.get(i..i + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..text.len()).step_by(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_way_through_text() {
        let id: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&id)), Some(id));
        assert_eq!(from_hex("0g"), None);
        assert_eq!(from_hex("abc"), None);
    }
}
