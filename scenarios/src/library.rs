//! The scenarios that are shipped inside the executable.
//!
//! `ringbreaker list` shows [`all`]; `run`, `show` and `check` take a name from [`find`] when there
//! is no such file. Each file begins with a comment: the hypothesis, the faults, and what NCCL is
//! expected to do, with its source.

use crate::{nearest, problem::Problems, scenario::Scenario};

/// A shipped scenario: its name and the text of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// What the command line calls it.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// No scenario of this name is shipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scenario {given:?} is shipped: {hint}")]
pub struct UnknownScenario {
    /// What was asked for.
    pub given: String,
    /// The nearest name, and all there are.
    pub hint: String,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../library/", $name, ".toml")),
        }),+]
    };
}

const ALL: &[Shipped] = shipped![
    "quick",
    "kill",
    "terminate",
    "stop",
    "stop-and-continue",
    "port-conflict",
    "port-mute",
    "port-exhaustion",
    "shm-limit",
    "shm-fill",
    "shm-inodes",
    "shm-read-only",
    "shm-stale",
    "memory-limit",
    "gpu-memory",
    "gpu-fragmentation",
    "clock-shift",
    "checkpoint-storage",
    "log-storage",
    "log-stalled",
    "delay",
    "loss",
    "rate",
    "partition",
    "kill-inside-init",
    "kill-inside-first-op",
    "kill-inside-abort",
    "error-modes",
    "unread-settings",
    "never-steady",
    "sizes",
];

impl Shipped {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// None for a released version: a test reads them all.
    pub fn parse(&self) -> Result<Scenario, Problems> {
        Scenario::parse(self.name, self.text)
    }
}

/// Every shipped scenario, `quick` first.
pub fn all() -> &'static [Shipped] {
    ALL
}

/// The shipped scenario of this name.
///
/// # Errors
///
/// There is none; the error suggests the nearest.
pub fn find(name: &str) -> Result<&'static Shipped, UnknownScenario> {
    ALL.iter().find(|shipped| shipped.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|shipped| shipped.name).collect();
        UnknownScenario { given: name.to_owned(), hint: nearest::hint(name, &names) }
    })
}
