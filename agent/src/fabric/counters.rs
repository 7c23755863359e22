//! What happened on one direction of a link. Packets are counted as on a wire of the link's MTU.

use ringbreaker_scenarios::units::Nanos;

/// Counters of one direction since the fabric began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets delivered.
    pub forwarded: u64,
    /// Their bytes, IP headers included.
    pub forwarded_bytes: u64,
    /// Of these, packets that waited for a delay, jitter or rate.
    pub delayed: u64,
    /// Packets lost by a rule's probability.
    pub lost: u64,
    /// Packets that a partition took.
    pub blocked: u64,
    /// Packets dropped because the link's queue was full.
    pub queue_dropped: u64,
    /// Packets that had to wait for the rate, on top of their own length.
    pub rate_limited: u64,
    /// Packets that the destination's device refused.
    pub write_errors: u64,
    /// How much later than planned delayed packets were delivered, median; none: none was delayed.
    pub lateness_p50: Option<Nanos>,
    /// The same, 99th percentile.
    pub lateness_p99: Option<Nanos>,
    /// When packets first met the rule in force.
    pub first: FirstMet,
}

/// When the first packet met each part of the rule in force on a direction; none: none has yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstMet {
    /// The first that had to wait was taken up.
    pub delayed: Option<Nanos>,
    /// The first was lost.
    pub lost: Option<Nanos>,
    /// The first was taken by a partition.
    pub blocked: Option<Nanos>,
    /// The first had to wait for the rate.
    pub rate_limited: Option<Nanos>,
}
