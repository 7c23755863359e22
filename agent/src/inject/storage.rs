//! Faults of storage alone. What it shares with /dev/shm is in [`super::volume`].

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ringbreaker_scenarios::{
    fault::{SlowLog, SlowStorage},
    units::{Bytes, Nanos},
};

use super::{Ground, InjectError, Injector, RankProcess, ground::Targets, volume::Volume};
use crate::{
    journal::Undo,
    log_pipe::LogPipe,
    sys::{
        fanotify::{Held, HeldOpens},
        procfs,
    },
};

const FAULT: &str = "slow_storage";

/// Every opening of a file in the node's storage waits. The kernel asks us before it opens a file there
/// (fanotify), and we answer late. When the agent dies the kernel lets everybody through.
///
/// Witness: the kernel asked about an opening by somebody else, and waits for the answer. Effect: when it
/// asked.
pub(super) struct Slow {
    nodes: Targets,
    by: Nanos,
    holders: Vec<HeldOpens>,
}

impl Slow {
    pub(super) fn new(fault: &SlowStorage, nodes: Targets) -> Slow {
        Slow { nodes, by: fault.by, holders: Vec::new() }
    }

    fn first(&self) -> Option<Held> {
        self.holders.iter().filter_map(HeldOpens::first).min_by_key(|held| held.at)
    }
}

impl Injector for Slow {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let path = Volume::Storage.inside(node, FAULT)?;
            let holder = Targets::inside(node, || HeldOpens::below(&path, self.by.into()))
                .map_err(InjectError::step(FAULT, "hold up opens of the storage (needs root)"))?;
            self.holders.push(holder);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let Held { pid, .. } = self.first()?;
        Some(format!("the kernel holds up process {pid}, which opens a file in the storage"))
    }

    fn effect(&self) -> Option<Nanos> {
        self.first().map(|first| first.at)
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        // Lets everybody through who waits.
        self.holders.clear();
        Ok(())
    }
}

const LOG: &str = "slow_log";
/// A line of NCCL's log is no longer than this: with less room left its writer waits.
const LINE: usize = 256;
/// How long a pipe from which everything is taken may still be full.
const EMPTY_WITHIN: Duration = Duration::from_secs(2);

/// What some ranks log is taken slowly from the pipe through which it goes. Pipe and ranks end with the
/// agent.
///
/// Witness: the kernel shows that a thread of the rank waits to write to a pipe, or that the pipe has no
/// room for another line. (A pipe of one page has room only until its page was written to the end, and
/// then again when all of it was taken: how full it is does not tell everything.)
pub(super) struct SlowedLog {
    rate: Bytes,
    pipes: Vec<(RankProcess, Arc<LogPipe>)>,
}

impl SlowedLog {
    /// Takes everything yet.
    pub(super) fn new(
        fault: &SlowLog,
        ranks: &[RankProcess],
        ground: &Ground,
    ) -> Result<SlowedLog, InjectError> {
        let find = |rank: &RankProcess| {
            let pipe = ground.log_pipes.get(&rank.rank).map(Arc::clone);
            let reason = format!("the log of rank {} goes to no pipe", rank.rank);
            let pipe = pipe.ok_or_else(|| InjectError::not_possible(LOG, reason))?;
            Ok((*rank, pipe))
        };
        let pipes = ranks.iter().map(find).collect::<Result<_, InjectError>>()?;
        Ok(SlowedLog { rate: fault.rate, pipes })
    }
}

impl Injector for SlowedLog {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        self.pipes.iter().for_each(|(_, pipe)| pipe.limit(Some(self.rate.0)));
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let mut seen = Vec::new();
        for (rank, pipe) in &self.pipes {
            let RankProcess { rank, pid, .. } = rank;
            let (waiting, capacity) = pipe.fill().ok()?;
            if waiting > 0 && procfs::waits_in(*pid, "pipe_write") {
                seen.push(format!("a thread of rank {rank} waits to write to its log pipe"));
            } else if waiting + LINE > capacity {
                seen.push(format!(
                    "{waiting} of {capacity} bytes wait in the log pipe of rank {rank}"
                ));
            } else {
                return None;
            }
        }
        Some(seen.join(", "))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        self.pipes.iter().for_each(|(_, pipe)| pipe.limit(None));
        for (rank, pipe) in &self.pipes {
            let deadline = Instant::now() + EMPTY_WITHIN;
            let is_full = || {
                let fill = pipe.fill().map_err(InjectError::step(LOG, "look at a pipe"));
                fill.map(|(waiting, capacity)| waiting + LINE > capacity)
            };
            while is_full()? {
                if Instant::now() > deadline {
                    let found = format!("a full pipe of the log of rank {}", rank.rank);
                    return Err(InjectError::still_there(LOG, found));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}
