//! Faults of /dev/shm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The node's /dev/shm has this size from the start. Only `when = { phase = "before-init" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitShm {
    /// Size of the file system, such as `"1 MiB"`, or Docker's default `"64 MiB"`.
    #[schemars(schema_with = "crate::schema::size")]
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
