//! Durations and sizes as people write them: `"2s"`, `"250ms"`, `"64 MiB"`.
//!
//! Both serialise as plain integers (nanoseconds, bytes), so that a history entry needs no parser,
//! and both print in the unit that reads best.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A length of time, or a reading of CLOCK_MONOTONIC, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A text that is not a quantity with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {wanted}")]
pub struct QuantityError {
    /// What was written.
    pub given: String,
    /// What would be right, with an example.
    pub wanted: &'static str,
}

const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

impl Nanos {
    /// Nothing.
    pub const ZERO: Nanos = Nanos(0);

    /// Whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// Seconds, for arithmetic that may lose the last digits.
    pub fn as_secs_f64(self) -> f64 {
        Duration::from(self).as_secs_f64()
    }

    /// `self - earlier`, or nothing when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;

    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Nanos {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Duration {
        Duration::from_nanos(n.0)
    }
}

/// Splits `"2.5 ms"` into its number and its unit's factor, and multiplies.
fn quantity(text: &str, units: &[(&str, u64)], wanted: &'static str) -> Result<u64, QuantityError> {
    let refuse = || QuantityError { given: text.to_owned(), wanted };
    let trimmed = text.trim();
    let end =
        trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').ok_or_else(refuse)?;
    let number: f64 = trimmed[..end].replace('_', "").parse().map_err(|_| refuse())?;
    let unit = trimmed[end..].trim();
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(refuse)?.1;
    let product = number * factor as f64;
    // Above 2^63 a float no longer tells neighbours apart; nothing here is that long or large.
    if product.is_finite() && product < 9.2e18 { Ok(product.round() as u64) } else { Err(refuse()) }
}

impl FromStr for Nanos {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Nanos, QuantityError> {
        quantity(text, TIME_UNITS, "a duration with a unit, such as \"250ms\", \"2s\" or \"1min\"")
            .map(Nanos)
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Bytes, QuantityError> {
        quantity(text, SIZE_UNITS, "a size with a unit, such as \"64 KiB\", \"1 MiB\" or \"2 GB\"")
            .map(Bytes)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let (factor, unit) = match n {
            0 => return f.pad("0s"),
            _ if n < 1_000 => (1, "ns"),
            _ if n < 1_000_000 => (1_000, "us"),
            _ if n < 1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        f.pad(&format!("{}{unit}", three_digits(n as f64 / factor as f64)))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let (factor, unit) = match n {
            _ if n < 1 << 10 => (1u64, "B"),
            _ if n < 1 << 20 => (1 << 10, "KiB"),
            _ if n < 1 << 30 => (1 << 20, "MiB"),
            _ => (1 << 30, "GiB"),
        };
        f.pad(&format!("{} {unit}", three_digits(n as f64 / factor as f64)))
    }
}

/// A number with about three significant digits and no trailing zeros.
fn three_digits(x: f64) -> String {
    let places = if x >= 100.0 {
        0
    } else if x >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{x:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        for (text, want) in [
            ("2s", 2_000_000_000),
            ("250ms", 250_000_000),
            ("1.5 s", 1_500_000_000),
            ("1min", 60_000_000_000),
        ] {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(want), "{text}");
        }
        for (text, want) in [("64 MiB", 64 << 20), ("1KiB", 1024), ("2 GB", 2_000_000_000)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(want), "{text}");
        }
    }

    #[test]
    fn a_quantity_without_a_right_unit_is_refused_with_an_example() {
        for text in ["2", "s", "", "2 parsecs", "-1s", "1..2s", "99999999999999999h"] {
            let error = text.parse::<Nanos>().unwrap_err();
            assert!(error.to_string().contains("such as"), "{text}: {error}");
        }
    }

    #[test]
    fn quantities_print_short() {
        assert_eq!(Nanos(2_104_000_000).to_string(), "2.1s");
        assert_eq!(Nanos(0).to_string(), "0s");
        assert_eq!(Nanos(102_000_000).to_string(), "102ms");
        assert_eq!(Bytes(34_210_176).to_string(), "32.6 MiB");
    }
}
