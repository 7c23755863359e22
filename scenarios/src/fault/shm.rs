//! Faults of /dev/shm.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The sizes of /dev/shm that have a name: what a container gets when nobody asks for another.
pub const SHM_PRESETS: &[(&str, Bytes)] = &[("docker", Bytes(64 << 20))];

fn shm_size(g: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = SHM_PRESETS.iter().map(|(name, _)| *name).collect();
    json_schema!({ "anyOf": [crate::schema::size(g), { "enum": names }] })
}

/// The node's /dev/shm has this size from the start. Only `when = { phase = "before-init" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitShm {
    /// Size of the file system, such as `"1 MiB"`, or `"docker"`: Docker's default, 64 MiB.
    #[schemars(schema_with = "shm_size")]
    pub to: Bytes,
}

/// The node's /dev/shm is filled until only a margin is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FillShm {
    /// How much stays free, such as `"1 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
}

/// The node's /dev/shm takes no more files, however much space it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExhaustShmInodes {
    /// How many files can still be made. Default: 0.
    #[serde(default)]
    pub leave: u32,
}

/// The node's /dev/shm can only be read; what is open already stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOnlyShm {}

/// An earlier run has left its `nccl-*` files in the node's /dev/shm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaleShm {
    /// How many files, 1 to 1000. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub files: u32,
    /// The size of each, such as `"33 MiB"` (NCCL's largest segment) or `"0 B"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub each: Bytes,
}

/// One file, unless more are asked for.
pub(crate) const fn one() -> u32 {
    1
}
