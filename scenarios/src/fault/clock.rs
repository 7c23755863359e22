//! Faults of clocks.
//!
//! Linux has namespaces for CLOCK_MONOTONIC and CLOCK_BOOTTIME alone, and a process gets its offsets when
//! it begins (time_namespaces(7)). CLOCK_REALTIME has none: stepping it would step the whole machine's,
//! and a preloaded library would lie only to callers that go through libc. So neither is offered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The rank's CLOCK_MONOTONIC and CLOCK_BOOTTIME read differently from those of all others, from its
/// first instruction on: as on a node that has been up much longer, or not for long. Exactly one of the
/// two. Only `when = { phase = "before-init" }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShiftClock {
    /// How far ahead, at most 100000 h, such as `"600h"` (2^31 ms are 596.5 h).
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub ahead: Nanos,
    /// How far behind; less than the machine has been up.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub behind: Nanos,
}

impl ShiftClock {
    /// What is added to the clocks, in nanoseconds.
    pub fn offset(&self) -> i64 {
        let signed = |Nanos(n)| i64::try_from(n).unwrap_or(i64::MAX);
        signed(self.ahead) - signed(self.behind)
    }
}
