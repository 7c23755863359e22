//! This machine's CLOCK_MONOTONIC, the clock of every event.

use nix::time::{ClockId, clock_gettime};
use ringbreaker_scenarios::units::Nanos;

/// Now.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("invariant: Linux has this clock");
    Nanos(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
}
