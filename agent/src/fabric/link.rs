//! One direction of a link, as the threads of the switch share it: rule, counters, what waits.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use hdrhistogram::Histogram;
use ringbreaker_scenarios::units::Nanos;

use super::{
    counters::{FirstMet, LinkCounters},
    rule::Rule,
};
use crate::sys::clock;

/// Lateness above this is recorded as this.
const LATEST: u64 = 60_000_000_000;

/// Shared state of one direction. Counters are statistics: no order between them is promised, except
/// that [`Link::waiting`] reaches zero only after the last waiting packet was delivered.
#[derive(Debug, Default)]
pub(super) struct Link {
    rule: Mutex<Rule>,
    /// Also asked when a packet that waited is delivered.
    pub(super) partition: AtomicBool,
    pub(super) waiting: Waiting,
    pub(super) forwarded: AtomicU64,
    pub(super) forwarded_bytes: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) blocked: AtomicU64,
    pub(super) queue_dropped: AtomicU64,
    pub(super) rate_limited: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) first: Firsts,
    lateness: Mutex<Option<Histogram<u32>>>,
}

/// When packets first met the rule in force.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    pub(super) delayed: First,
    pub(super) lost: First,
    pub(super) blocked: First,
    pub(super) rate_limited: First,
}

/// A moment that is noted once; zero: not yet.
#[derive(Debug, Default)]
pub(super) struct First(AtomicU64);

impl First {
    /// Costs one load when it is noted already.
    pub(super) fn note(&self) {
        if self.0.load(Relaxed) == 0 {
            // Of two threads that note at once the later one has it: their packets came together.
            self.0.store(clock::now().0, Relaxed);
        }
    }

    fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    fn get(&self) -> Option<Nanos> {
        Some(Nanos(self.0.load(Relaxed))).filter(|at| *at > Nanos::ZERO)
    }
}

/// What waits on a direction.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Waiting {
    pub(super) fn add(&self, bytes: usize) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// After the delivery. Released, so that whoever then sees none may deliver directly.
    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Relaxed);
        self.packets.fetch_sub(1, std::sync::atomic::Ordering::Release);
    }

    pub(super) fn is_none(&self) -> bool {
        self.packets.load(std::sync::atomic::Ordering::Acquire) == 0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Link {
    pub(super) fn rule(&self) -> Rule {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_rule(&self, rule: Rule) {
        let Firsts { delayed, lost, blocked, rate_limited } = &self.first;
        [delayed, lost, blocked, rate_limited].into_iter().for_each(First::forget);
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = rule;
        self.partition.store(rule.partition, Relaxed);
    }

    /// Counts a packet that reached its destination's device, or did not.
    pub(super) fn count_delivery(&self, written: bool, segments: u64, bytes: usize) {
        if written {
            self.forwarded.fetch_add(segments, Relaxed);
            self.forwarded_bytes.fetch_add(bytes as u64, Relaxed);
        } else {
            self.write_errors.fetch_add(segments, Relaxed);
        }
    }

    /// Records how late a packet that waited is delivered.
    pub(super) fn record_lateness(&self, late: Nanos) {
        let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = lateness.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, LATEST, 2)
                .expect("invariant: 1 < LATEST, and 2 digits are among 0 to 5")
        });
        histogram.saturating_record(late.0.clamp(1, LATEST));
    }

    pub(super) fn counters(&self) -> LinkCounters {
        let lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        let quantile = |q| lateness.as_ref().map(|h| Nanos(h.value_at_quantile(q)));
        LinkCounters {
            forwarded: self.forwarded.load(Relaxed),
            forwarded_bytes: self.forwarded_bytes.load(Relaxed),
            delayed: self.delayed.load(Relaxed),
            lost: self.lost.load(Relaxed),
            blocked: self.blocked.load(Relaxed),
            queue_dropped: self.queue_dropped.load(Relaxed),
            rate_limited: self.rate_limited.load(Relaxed),
            write_errors: self.write_errors.load(Relaxed),
            lateness_p50: quantile(0.5),
            lateness_p99: quantile(0.99),
            first: FirstMet {
                delayed: self.first.delayed.get(),
                lost: self.first.lost.get(),
                blocked: self.first.blocked.get(),
                rate_limited: self.first.rate_limited.get(),
            },
        }
    }
}
