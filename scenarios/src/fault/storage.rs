//! Faults of the storage that ranks write their checkpoints and NCCL's log to. A node at which one is
//! aimed has a file system of its own for both, of 64 MiB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// The node's storage is filled until only a margin is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FillStorage {
    /// How much stays free, such as `"64 KiB"`.
    #[schemars(schema_with = "crate::schema::size")]
    pub leave: Bytes,
}

/// The node's storage can only be read; what is open already stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOnlyStorage {}

/// Every opening of a file in the node's storage takes this much longer, as with a metadata server that
/// is overloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowStorage {
    /// How much longer, such as `"2s"`.
    #[schemars(schema_with = "crate::schema::duration")]
    pub by: Nanos,
}

/// What the rank logs as NCCL goes through a pipe of one page, from which only so much a second is taken:
/// a log on storage that does not keep up, or has stopped. A line that does not fit makes its writer wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowLog {
    /// How much is taken a second, such as `"1 KiB"`. Default: nothing at all.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::size")]
    pub rate: Bytes,
}
