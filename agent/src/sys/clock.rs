//! CLOCK_MONOTONIC: the one clock of a node. All processes of a machine share it.

use nix::time::{ClockId, clock_gettime};
use ringbreaker_scenarios::units::Nanos;

/// The present reading of CLOCK_MONOTONIC.
pub fn now() -> Nanos {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .expect("invariant: every Linux kernel has CLOCK_MONOTONIC");
    // Both parts are never negative for this clock.
    Nanos(t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_covers_at_least_a_pause() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().since(before) >= Nanos::from_millis(2));
    }
}
