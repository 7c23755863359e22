//! Faults of TCP ports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where every process that uses NCCL listens for RAS clients, on the loopback alone (NCCL source
/// 2.30.7, src/ras/client_support.cc).
const RAS_PORT: u16 = 28028;

/// A port by what the job wants it for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortRole {
    /// The cluster's rendezvous port (NCCL_COMM_ID, where rank 0 listens).
    #[default]
    Rendezvous,
    /// 28028, where RAS clients are answered.
    Ras,
}

impl PortRole {
    /// The fixed number of the port; none: the cluster says it.
    pub const fn number(self) -> Option<u16> {
        match self {
            PortRole::Rendezvous => None,
            PortRole::Ras => Some(RAS_PORT),
        }
    }
}

/// Somebody else listens, without SO_REUSEPORT, on the port that the job wants, over IPv4 and IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakePort {
    /// The port; default: that of the role.
    #[serde(default)]
    pub port: Option<u16>,
    /// What the job wants the port for, instead of a number. Default: `rendezvous`.
    #[serde(default)]
    pub role: PortRole,
}

impl TakePort {
    /// The port, if it is not the cluster's to say.
    pub fn number(&self) -> Option<u16> {
        self.port.or(self.role.number())
    }
}

/// A stranger shares the port that the job listens on (SO_REUSEPORT), gets every connection, accepts
/// it and never says a word. Only `when = { phase = "before-init" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteListener {
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

/// The node's automatic (port 0) range has only this many ports; none of them is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NarrowPorts {
    /// How many ports the range has, 1 to 16384.
    #[schemars(range(min = 1, max = 16_384))]
    pub to: u16,
}
