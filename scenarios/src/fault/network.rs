//! Faults of the links between nodes. Each acts on one direction or on both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Packets arrive late, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// One-way delay, such as `"5ms"`.
    #[schemars(schema_with = "crate::schema::duration")]
    pub by: Nanos,
    /// Uniform jitter added on top, between nothing and this. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub jitter: Nanos,
}

/// Packets are lost at random, each by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Share of packets lost, in percent, above 0 up to 100.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0))]
    pub percent: f64,
}

/// The link carries no more than this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Megabits a second, counted at the IP layer.
    #[schemars(range(max = 1_000_000.0), extend("exclusiveMinimum" = 0))]
    pub mbit: f64,
}

/// Nothing passes; packets vanish silently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Partition {}
