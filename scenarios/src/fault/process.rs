//! Faults of rank processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A signal that ends a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Which signal. Default: `KILL`.
    #[serde(default)]
    pub signal: Signal,
}

/// The signals that a rank can be ended with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// SIGKILL: nothing in the process runs any more.
    #[default]
    Kill,
    /// SIGTERM: what a launcher or scheduler sends first.
    Term,
}

/// SIGSTOP to a rank, all threads. When the fault's life ends: SIGCONT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {}
