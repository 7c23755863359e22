//! Versions of NCCL and PyTorch, as far as defaults depend on them.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// Three numbers; whatever a build appends (`2.11.0+cu128`, `1.13.0a0`) is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    parts: [u32; 3],
}

/// A text that does not begin with a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no version, such as 2.28.9")]
pub struct NotAVersion {
    /// What was given.
    pub given: String,
}

impl Version {
    /// The first release of what a text names: `2.24` is 2.24.0.
    pub fn first(text: &str) -> Option<Version> {
        read(text, 0)
    }

    /// Above the last release of what a text names: `2.22` is above every 2.22.x.
    pub fn last(text: &str) -> Option<Version> {
        read(text, u32::MAX)
    }
}

/// Reads up to three numbers; what is not given becomes `rest`.
fn read(text: &str, rest: u32) -> Option<Version> {
    let end = text.find(|ch: char| !ch.is_ascii_digit() && ch != '.').unwrap_or(text.len());
    let mut parts = [rest; 3];
    let numbers = text[..end].split('.').filter(|part| !part.is_empty());
    let mut some = false;
    for (part, number) in parts.iter_mut().zip(numbers) {
        *part = number.parse().ok()?;
        some = true;
    }
    some.then_some(Version { parts })
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Version, NotAVersion> {
        Version::first(text.trim()).ok_or_else(|| NotAVersion { given: text.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.parts;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_libraries_say_and_compared_by_number() {
        for (text, want) in [
            ("2.28.9", "2.28.9"),
            ("2.24", "2.24.0"),
            ("1.13.0a0", "1.13.0"),
            ("2.11.0+cu128", "2.11.0"),
            ("2.5.1 or earlier", "2.5.1"),
        ] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), want, "{text}");
        }
        for wrong in ["", "new", ".", "v2"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("2.9.6") < version("2.28.3"));
        assert!(version("2.22.3") <= Version::last("2.22").unwrap());
        assert!(version("2.23") > Version::last("2.22").unwrap());
    }
}
