//! Faults of rank processes: signals that end them, and a stop that is taken back.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use ringbreaker_scenarios::{fault, units::Nanos};

use super::{InjectError, Injector, RankProcess};
use crate::{
    journal::Undo,
    sys::{
        clock, procfs,
        signal::{self, Signal},
    },
};

const KILL: &str = "kill";
const STOP: &str = "stop";
/// A continued process is looked at this long until it is no longer stopped.
const PATIENCE: Duration = Duration::from_secs(2);

impl RankProcess {
    fn send(&self, signal: Signal) -> io::Result<bool> {
        signal::send(self.pid, self.start_time, signal)
    }

    /// Whether it runs no more, collected or not.
    pub(super) fn ended(&self) -> io::Result<bool> {
        Ok(matches!(self.state()?, None | Some('Z' | 'X')))
    }

    /// State letter of the process; none: gone.
    fn state(&self) -> io::Result<Option<char>> {
        procfs::state(self.pid, self.start_time)
    }
}

/// Ends ranks with a signal. There is nothing to heal: they are gone for this case.
///
/// Witness: the kernel knows the process no longer, or as a zombie. Effect: when the first signal was
/// given to the kernel; neighbours may notice before /proc shows the end.
pub(super) struct Killed {
    signal: Signal,
    ranks: Vec<RankProcess>,
    sent: Option<Nanos>,
}

impl Killed {
    pub(super) fn new(fault: &fault::Kill, ranks: Vec<RankProcess>) -> Killed {
        let signal = match fault.signal {
            fault::Signal::Kill => Signal::SIGKILL,
            fault::Signal::Term => Signal::SIGTERM,
        };
        Killed { signal, ranks, sent: None }
    }
}

impl Injector for Killed {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for process in &self.ranks {
            let step = format!("send {} to rank {}", self.signal, process.rank);
            let gone = || io::Error::other("it had ended by itself");
            self.sent.get_or_insert_with(clock::now);
            match process.send(self.signal) {
                Ok(true) => Ok(()),
                Ok(false) => Err(gone()),
                Err(error) => Err(error),
            }
            .map_err(InjectError::step(KILL, step))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let mut seen = Vec::new();
        for process in &self.ranks {
            let RankProcess { pid, rank, .. } = process;
            if !process.ended().ok()? {
                return None;
            }
            seen.push(format!("the kernel shows process {pid} of rank {rank} as ended"));
        }
        Some(seen.join(", "))
    }

    fn effect(&self) -> Option<Nanos> {
        self.sent
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        Ok(())
    }
}

/// SIGSTOP to all threads of ranks, SIGCONT when it is healed.
///
/// Witness: the kernel shows the process as stopped (state T). Effect: when the first signal was given
/// to the kernel.
pub(super) struct Stopped {
    ranks: Vec<RankProcess>,
    /// When it was injected; none: nothing is to be taken back.
    sent: Option<Nanos>,
}

impl Stopped {
    pub(super) fn new(ranks: Vec<RankProcess>) -> Stopped {
        Stopped { ranks, sent: None }
    }
}

impl Injector for Stopped {
    fn undo(&self) -> Vec<Undo> {
        let undo = |process: &RankProcess| Undo::ContinueProcess {
            pid: process.pid,
            start_time: process.start_time,
        };
        self.ranks.iter().map(undo).collect()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        self.sent = Some(clock::now());
        for process in &self.ranks {
            let step = format!("stop rank {}", process.rank);
            let sent = process.send(Signal::SIGSTOP).map_err(InjectError::step(STOP, &*step))?;
            if !sent {
                let gone = io::Error::other("it had ended by itself");
                return Err(InjectError::step(STOP, step)(gone));
            }
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let mut seen = Vec::new();
        for process in &self.ranks {
            let RankProcess { pid, rank, .. } = process;
            if process.state().ok()? != Some('T') {
                return None;
            }
            seen.push(format!("process {pid} of rank {rank} is stopped (state T)"));
        }
        Some(seen.join(", "))
    }

    fn effect(&self) -> Option<Nanos> {
        self.sent
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        if self.sent.is_none() {
            return Ok(());
        }
        for process in &self.ranks {
            let step = format!("continue rank {}", process.rank);
            process.send(Signal::SIGCONT).map_err(InjectError::step(STOP, step))?;
        }
        let deadline = Instant::now() + PATIENCE;
        for process in &self.ranks {
            let look = format!("look at rank {}", process.rank);
            while process.state().map_err(InjectError::step(STOP, &*look))? == Some('T') {
                if Instant::now() > deadline {
                    let found = format!("rank {} is stopped after SIGCONT", process.rank);
                    return Err(InjectError::still_there(STOP, found));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.sent = None;
        Ok(())
    }
}
