//! A rank's memory limit is reached, down to the OOM killer.

use std::io;

use ringbreaker_scenarios::{
    fault::LimitMemory,
    units::{Bytes, Nanos},
};

use super::{
    limit::{RankLimit, refused},
    press::SPARED,
};
use crate::{
    inject::{Ground, InjectError, Injector, RankProcess, companion::Companion},
    journal::Undo,
    sys::{clock, oom, procfs},
};

const FAULT: &str = "limit_memory";
/// The limit is this far above what is in use, plus what stays free: the presser has to take it, so
/// that it is the limit that is felt and not a refusal to set it.
const HEADROOM: u64 = 8 << 20;
/// The same where the pressure rises steadily.
const GRADUAL_HEADROOM: u64 = 64 << 20;
/// The kernel counts in batches: this much below the aim is there.
const MARGIN: u64 = 1 << 20;
/// A rank that frees meanwhile: how often the presser follows.
const ROUNDS: u32 = 16;

/// The cgroup of each rank gets a limit just above what it uses, and a helper in the same cgroup
/// takes what is left. The OOM killer passes the helper over; where the kernel does not allow that
/// (no CAP_SYS_RESOURCE), the rank is put first in its choice instead.
///
/// Witness: the cgroup's use has come up to the limit less the margin, or its count of OOM kills has
/// grown and the rank has ended, or (with swap and nothing left) the kernel has swapped memory of the
/// cgroup out. Effect: the last look that showed neither OOM kill nor end, so that
/// what notices the end never seems to come before it; too early by the pause between two looks.
pub(in crate::inject) struct RankMemory {
    fault: LimitMemory,
    pressed: Vec<Pressed>,
}

/// One rank under pressure.
struct Pressed {
    rank: RankProcess,
    memory: RankLimit,
    presser: Companion,
    /// The OOM killer passes the presser over.
    spared: bool,
    /// What the cgroup had before the fault; none: not injected.
    before: Option<Before>,
    limit: Bytes,
    /// The last look at which nothing had happened yet.
    quiet: Option<Nanos>,
}

#[derive(Clone, Copy)]
struct Before {
    oom_kills: u64,
    /// The rank's place in the OOM killer's choice; none: not changed.
    preference: Option<i32>,
}

impl RankMemory {
    /// Starts the helpers, idle and outside of the cgroups.
    pub(in crate::inject) fn new(
        fault: &LimitMemory,
        ranks: Vec<RankProcess>,
        ground: &Ground,
        id: u32,
    ) -> Result<RankMemory, InjectError> {
        if fault.swap && procfs::swap_total().is_ok_and(|swap| swap == Bytes(0)) {
            let reason = "this machine has no swap (see /proc/swaps); leave out `swap = true`";
            return Err(InjectError::not_possible(FAULT, reason));
        }
        let mut pressed = Vec::new();
        for rank in ranks {
            let memory = RankLimit::of(FAULT, &rank, ground, id)?;
            let (presser, words) = Companion::start(ground, "press-memory")
                .map_err(InjectError::step(FAULT, "start the helper that takes memory"))?;
            let spared = words == SPARED;
            let (before, limit, quiet) = (None, Bytes(0), None);
            pressed.push(Pressed { rank, memory, presser, spared, before, limit, quiet });
        }
        Ok(RankMemory { fault: fault.clone(), pressed })
    }
}

impl Injector for RankMemory {
    fn undo(&self) -> Vec<Undo> {
        self.pressed.iter().map(|pressed| pressed.presser.undo()).collect()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for pressed in &mut self.pressed {
            let step = format!("press the memory of rank {}", pressed.rank.rank);
            pressed.press(&self.fault).map_err(InjectError::step(FAULT, step))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let fault = &self.fault;
        let seen: Option<Vec<String>> =
            self.pressed.iter_mut().map(|pressed| pressed.witness(fault)).collect();
        seen.map(|seen| seen.join(", "))
    }

    fn effect(&self) -> Option<Nanos> {
        self.pressed.iter().filter_map(|pressed| pressed.quiet).min()
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        for pressed in &mut self.pressed {
            let step = format!("take the pressure off rank {}", pressed.rank.rank);
            let found = pressed.relieve().map_err(InjectError::step(FAULT, step))?;
            if let Some(found) = found {
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}

impl Pressed {
    fn press(&mut self, fault: &LimitMemory) -> io::Result<()> {
        let leave = fault.leave;
        let headroom = if fault.rate.is_some() { GRADUAL_HEADROOM } else { HEADROOM };
        let cgroup = self.memory.cgroup()?;
        let before = Before {
            oom_kills: cgroup.oom_kills().map_err(refused)?,
            preference: match self.spared {
                true => None,
                false => oom::prefer(self.rank.pid, self.rank.start_time, oom::FIRST)?,
            },
        };
        // From here on healing has something to take back, whatever fails below.
        self.before = Some(before);
        self.memory.cgroup()?.join(self.presser.pid()).map_err(refused)?;
        let limit = self.memory.lower(headroom + leave.0, fault.swap)?;
        self.limit = limit;
        self.quiet = Some(clock::now());
        // More than the limit cannot be charged to it, so that is an order to take everything.
        let all = if leave == Bytes(0) { limit.0 } else { headroom };
        if let Some(rate) = fault.rate {
            return self.presser.say(&format!("take {all} at {}", rate.0));
        }
        if leave == Bytes(0) {
            // No answer comes: the kernel holds the presser until the OOM killer has made room.
            return self.presser.say(&format!("take {all}"));
        }
        self.take_up_to(limit.0.saturating_sub(leave.0))
    }

    fn take_up_to(&mut self, aim: u64) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let used = self.memory.cgroup()?.memory_usage().map_err(refused)?.0;
            let more = aim.saturating_sub(used);
            if more < MARGIN / 4 {
                break;
            }
            self.presser.say(&format!("take {more}"))?;
            self.presser.hear("holds")?;
        }
        Ok(())
    }

    fn witness(&mut self, fault: &LimitMemory) -> Option<String> {
        let leave = fault.leave;
        let Pressed { rank: RankProcess { rank, .. }, limit, .. } = *self;
        let before = self.before.as_ref()?.oom_kills;
        let looked = clock::now();
        let kills = self.memory.cgroup().ok()?.oom_kills().ok()?.saturating_sub(before);
        let ended = self.rank.ended().ok()?;
        if kills == 0 && !ended {
            self.quiet = Some(looked);
        }
        if kills > 0 && ended {
            // Nobody is left whom the OOM killer may take: a spared presser would wait for ever.
            self.presser.kill().ok()?;
            return Some(format!("the OOM killer acted in the cgroup of rank {rank}, which ended"));
        }
        if fault.swap && leave == Bytes(0) {
            let swapped =
                self.memory.cgroup().ok()?.swap_usage().ok().filter(|swap| *swap > Bytes(0))?;
            return Some(format!("{swapped} of the cgroup of rank {rank} are swapped out"));
        }
        let used = self.memory.cgroup().ok()?.memory_usage().ok()?;
        let reached = leave > Bytes(0) && used.0 + leave.0 + MARGIN >= limit.0;
        reached.then(|| format!("the cgroup of rank {rank} uses {used} of its limit of {limit}"))
    }

    /// What is still in force afterwards; none: nothing.
    fn relieve(&mut self) -> io::Result<Option<String>> {
        // First the presser: without the limit it could take the machine's memory.
        if !self.presser.kill()? {
            return Ok(Some(format!("the helper process {}", self.presser.pid())));
        }
        let Some(Before { preference, .. }) = self.before else { return Ok(None) };
        if let Some(preference) = preference {
            oom::prefer(self.rank.pid, self.rank.start_time, preference)?;
        }
        let found = self.memory.lift()?;
        if found.is_none() {
            self.before = None;
        }
        Ok(found)
    }
}
