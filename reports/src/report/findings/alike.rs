//! When two times say the same: one measure for every finding, so that no two contradict each other.

use ringbreaker_scenarios::units::Nanos;

/// Two times are alike when they differ by no more than this factor ...
const FACTOR: f64 = 1.25;
/// ... or by no more than this: the poll interval of PyTorch's watchdog and of the rank's.
const MARGIN: Nanos = Nanos::from_millis(100);

/// Whether the difference is within what the same cause gives twice.
pub(super) fn alike(a: Nanos, b: Nanos) -> bool {
    let (short, long) = (a.min(b), a.max(b));
    long.0 as f64 <= short.0 as f64 * FACTOR || long.since(short) <= MARGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_difference_or_a_small_ratio_is_none() {
        let ms = Nanos::from_millis;
        for (a, b, expected) in [
            (ms(30), ms(115), true),
            (ms(10), ms(111), false),
            (ms(2000), ms(2400), true),
            (ms(2600), ms(2000), false),
        ] {
            assert_eq!(alike(a, b), expected, "{a} {b}");
        }
    }
}
