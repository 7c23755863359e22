//! Faults of clocks, as files write them.

use super::{super::table::Value, Collector, Table, value};
use crate::{fault::ShiftClock, units::Nanos};

/// Some eleven years; the kernel takes more, but no machine is up for so long.
const MOST: Nanos = Nanos::from_secs(100_000 * 3600);

pub(super) fn shift(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<ShiftClock> {
    if let Some(v) = t.optional("realtime") {
        let what = "CLOCK_REALTIME cannot be shifted for one process: Linux has no namespace for it, \
                    and a preloaded library deceives only callers that go through libc";
        c.at(v.span(), what, "ahead or behind, which shift CLOCK_MONOTONIC and CLOCK_BOOTTIME");
        return None;
    }
    let ahead = t.optional("ahead");
    let behind = t.optional("behind");
    match (ahead, behind) {
        (Some(v), None) => within(v, c).map(|ahead| ShiftClock { ahead, behind: Nanos::ZERO }),
        (None, Some(v)) => within(v, c).map(|behind| ShiftClock { ahead: Nanos::ZERO, behind }),
        _ => {
            let what = "a clock is either ahead or behind";
            c.at(t.span(), what, "one of ahead = \"600h\" and behind = \"10min\"");
            None
        }
    }
}

fn within(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Nanos> {
    let time = value::positive_duration(v, c)?;
    if time > MOST {
        c.at(v.span(), "no machine is up for so long", "at most \"100000h\"");
        return None;
    }
    Some(time)
}
