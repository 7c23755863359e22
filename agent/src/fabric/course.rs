//! What one direction of a link does to each packet: which segments are lost, when the others
//! arrive. Pure: time is an argument, draws come from a seed.

use std::ops::Range;

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use ringbreaker_scenarios::{case::Node, units::Nanos};

use super::rule::Rule;

/// The least a rate-limited link queues, in bytes; more for fast links.
const SHORTEST_QUEUE: f64 = 256.0 * 1024.0;
/// What a rate-limited link queues, in time at its rate.
const QUEUE_TIME: f64 = 0.050;
/// The longest a cut piece may occupy a rate-limited link, in seconds: larger ones would arrive in
/// bursts that no real link has.
const LONGEST_PIECE: f64 = 0.000_5;

/// State of one direction, owned by the thread that reads its sender's packets.
#[derive(Debug)]
pub(super) struct Course {
    draws: ChaCha8Rng,
    /// When the link has sent all that it was given.
    free: Nanos,
    /// When the last packet arrives; no later one arrives earlier.
    last: Nanos,
}

/// When a packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) at: Nanos,
    /// It had to wait for packets before it.
    pub(super) waited: bool,
}

impl Course {
    /// The draws of a direction depend on the seed and its two ends alone.
    pub(super) fn new(seed: u64, from: Node, to: Node) -> Course {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..12].copy_from_slice(&from.to_le_bytes());
        bytes[12..16].copy_from_slice(&to.to_le_bytes());
        Course { draws: ChaCha8Rng::from_seed(bytes), free: Nanos::ZERO, last: Nanos::ZERO }
    }

    /// Draws the fate of each segment and writes the runs of survivors to `runs`, none longer than
    /// `longest`. Returns how many are lost.
    pub(super) fn survivors(
        &mut self,
        loss: f64,
        segments: usize,
        longest: usize,
        runs: &mut Vec<Range<usize>>,
    ) -> usize {
        runs.clear();
        let mut lost = 0;
        for i in 0..segments {
            if loss > 0.0 && self.draws.random::<f64>() < loss {
                lost += 1;
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == i && run.len() < longest => run.end = i + 1,
                _ => runs.push(i..i + 1),
            }
        }
        lost
    }

    /// When a packet of this many bytes arrives that is sent now; none: the link's queue is full.
    pub(super) fn arrival(&mut self, rule: &Rule, bytes: usize, now: Nanos) -> Option<Arrival> {
        let (sent, waited) = match rule.rate_bits {
            None => (now, false),
            Some(rate) => {
                let begins = self.free.max(now);
                let queued = begins.since(now).as_secs_f64() * rate / 8.0;
                if queued + bytes as f64 > SHORTEST_QUEUE.max(rate / 8.0 * QUEUE_TIME) {
                    return None;
                }
                let lasts = Nanos((bytes as f64 * 8.0 / rate * 1e9) as u64);
                self.free = begins + lasts;
                (self.free, begins > now)
            }
        };
        let jitter = match rule.jitter {
            Nanos::ZERO => Nanos::ZERO,
            Nanos(most) => Nanos(self.draws.random_range(0..=most)),
        };
        let at = (sent + rule.delay + jitter).max(self.last);
        self.last = at;
        Some(Arrival { at, waited })
    }
}

/// How many segments of this size one piece may have.
pub(super) fn longest_piece(rule: &Rule, segment_bytes: usize) -> usize {
    match rule.rate_bits {
        None => usize::MAX,
        Some(rate) => {
            ((rate / 8.0 * LONGEST_PIECE) as usize).checked_div(segment_bytes).unwrap_or(1).max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Survivors and losses are all of the packet, runs are in order and no longer than allowed.
        #[test]
        fn every_segment_is_lost_or_in_exactly_one_run(
            seed in any::<u64>(), loss in 0.0f64..=1.0, segments in 1usize..60, longest in 1usize..9,
        ) {
            let mut runs = Vec::new();
            let lost = Course::new(seed, 0, 1).survivors(loss, segments, longest, &mut runs);
            let survivors: Vec<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(survivors.len() + lost, segments);
            prop_assert!(survivors.is_sorted_by(|a, b| a < b));
            prop_assert!(runs.iter().all(|run| !run.is_empty() && run.len() <= longest));
        }

        /// However the rule changes between packets, none overtakes an earlier one, and none arrives
        /// before its delay has passed.
        #[test]
        fn packets_arrive_in_order_whatever_the_rules(
            steps in proptest::collection::vec(
                (0u64..1_000_000, 0u64..5_000_000, 0u64..2_000_000, prop::option::of(1e6f64..1e10)),
                1..60,
            ),
        ) {
            let mut course = Course::new(1, 0, 1);
            let (mut now, mut last) = (Nanos(1), Nanos::ZERO);
            for (pause, delay, jitter, rate_bits) in steps {
                now = now + Nanos(pause);
                let (delay, jitter) = (Nanos(delay), Nanos(jitter));
                let rule = Rule { delay, jitter, rate_bits, ..Rule::default() };
                if let Some(arrival) = course.arrival(&rule, 1500, now) {
                    prop_assert!(arrival.at >= last && arrival.at >= now + delay);
                    last = arrival.at;
                }
            }
        }
    }

    #[test]
    fn a_rate_spaces_packets_and_drops_what_its_queue_cannot_hold() {
        let rule = Rule { rate_bits: Some(12e6), ..Rule::default() };
        let mut course = Course::new(1, 0, 1);
        let now = Nanos::from_secs(1);
        // 1500 bytes at 12 Mbit/s take 1 ms.
        for i in 1..=3 {
            let arrival = course.arrival(&rule, 1500, now).unwrap();
            assert_eq!(arrival.at, now + Nanos::from_millis(i));
            assert_eq!(arrival.waited, i > 1);
        }
        let taken = (0..1000).filter(|_| course.arrival(&rule, 1500, now).is_some()).count();
        // 256 KiB hold 174 packets of 1500 bytes.
        assert_eq!(taken + 3, 174);
    }

    #[test]
    fn draws_depend_on_seed_and_ends_alone() {
        let draw = |seed, from, to| {
            let mut runs = Vec::new();
            Course::new(seed, from, to).survivors(0.5, 64, 64, &mut runs);
            runs
        };
        assert_eq!(draw(1, 0, 1), draw(1, 0, 1));
        assert_ne!(draw(1, 0, 1), draw(1, 1, 0));
        assert_ne!(draw(1, 0, 1), draw(2, 0, 1));
    }

    #[test]
    fn pieces_are_shorter_on_slow_links() {
        let at = |rate_bits| longest_piece(&Rule { rate_bits, ..Rule::default() }, 1500);
        assert_eq!(at(None), usize::MAX);
        assert_eq!(at(Some(1e6)), 1);
        assert_eq!(at(Some(1e9)), 41);
    }
}
