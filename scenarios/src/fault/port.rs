//! Faults of TCP ports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Somebody else listens, without SO_REUSEPORT, on the port that the job wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakePort {
    /// The port; default: the cluster's rendezvous port (NCCL_COMM_ID, where rank 0 listens).
    #[serde(default)]
    pub port: Option<u16>,
}

/// The node's automatic (port 0) range is narrowed and every port in it taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExhaustPorts {
    /// How many ports stay free. Default: 0.
    #[serde(default)]
    pub leave: u16,
}
