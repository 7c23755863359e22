//! A rank's clock differs from that of the others.

use ringbreaker_scenarios::fault::ShiftClock;

use super::{InjectError, Injector, RankProcess};
use crate::{journal::Undo, sys::timens};

const FAULT: &str = "shift_clock";

/// The rank was started in a time namespace of its own; this only sees to it that it was. The namespace
/// has no name and vanishes with the rank.
///
/// Witness: the kernel shows the rank in another time namespace, with that offset; and the rank's own
/// reading of its clock, where it has told one, was that far from the agent's.
pub(super) struct Shifted {
    offset: i64,
    ranks: Vec<RankProcess>,
}

impl Shifted {
    pub(super) fn new(fault: &ShiftClock, ranks: Vec<RankProcess>) -> Shifted {
        Shifted { offset: fault.offset(), ranks }
    }

    /// The sentence about one rank; none: its clock is not shifted so.
    fn seen(&self, rank: &RankProcess) -> Option<String> {
        if timens::offset_of(rank.pid).ok()?? != self.offset {
            return None;
        }
        let RankProcess { rank, clock_ahead, .. } = rank;
        let asked = seconds(self.offset);
        let Some(ahead) = clock_ahead else {
            return Some(format!("the kernel shows the clock of rank {rank} {asked} s ahead"));
        };
        // What a rank tells is some time old when it is heard, so it seems to be behind by that.
        let near = ahead.abs_diff(self.offset) < self.offset.unsigned_abs() / 2;
        near.then(|| format!("rank {rank} told a clock {} s ahead of the agent's", seconds(*ahead)))
    }
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

impl Injector for Shifted {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for rank in &self.ranks {
            let found = timens::offset_of(rank.pid)
                .map_err(InjectError::step(FAULT, format!("look at rank {}", rank.rank)))?;
            if found != Some(self.offset) {
                let reason = format!("rank {} was not started with such a clock", rank.rank);
                return Err(InjectError::not_possible(FAULT, reason));
            }
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let seen: Option<Vec<String>> = self.ranks.iter().map(|rank| self.seen(rank)).collect();
        seen.map(|seen| seen.join(", "))
    }

    /// The rank keeps its clocks for as long as it lives.
    fn heal(&mut self) -> Result<(), InjectError> {
        Ok(())
    }
}
