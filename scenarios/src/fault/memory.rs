//! Faults of host and GPU memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The rank's cgroup gets a limit just above what it uses, and a helper process in the same cgroup
/// takes what is left. At `leave = "0 B"` the OOM killer ends the rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitMemory {
    /// How much below the limit stays free, such as `"0 B"` (the OOM killer acts) or `"16 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
    /// How much the helper takes a second, such as `"32 MiB"`: the limit is then 64 MiB and the margin
    /// above what is in use, and comes nearer steadily. Default: all at once.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::size")]
    pub rate: Option<Bytes>,
    /// Whether the kernel may swap out what does not fit, where the machine has swap. Default: no.
    #[serde(default)]
    pub swap: bool,
}

/// The rank's cgroup gets a limit a little above what it uses, and a helper process in the same cgroup
/// reads a file without end: whatever the rank takes, the kernel must first drop page cache for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PressPageCache {
    /// How far the limit is above what is in use, at most 1 GiB, such as `"32 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub room: Bytes,
    /// How much is read a second. Default: 256 MiB.
    #[serde(default = "reading_rate")]
    #[schemars(schema_with = "crate::schema::size")]
    pub rate: Bytes,
}

/// What is read a second when nothing else is asked for.
pub(crate) const fn reading_rate() -> Bytes {
    Bytes(256 << 20)
}

/// A separate process holds the GPU's memory but for a margin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldGpuMemory {
    /// How much stays free, such as `"10 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
}

/// A separate process holds the GPU's memory but for a margin, which is in pieces that do not touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FragmentGpuMemory {
    /// How much stays free in all, such as `"4 GiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
    /// The size of each free piece, a multiple of 2 MiB (the driver's own pieces).
    #[schemars(schema_with = "crate::schema::size")]
    pub piece: Bytes,
}
