//! Faults of host and GPU memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The rank's cgroup gets a limit just above what it uses, and a helper process in the same cgroup
/// takes what is left. At `leave = "0 B"` the OOM killer ends the rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitMemory {
    /// How much below the limit stays free, such as `"0 B"` (the OOM killer acts) or `"16 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
}

/// A separate process holds the GPU's memory but for a margin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldGpuMemory {
    /// How much stays free, such as `"10 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
}
