//! Faults of memory, as files write them.

use super::{super::table::Value, Collector, Table, leave, value};
use crate::{
    fault::{FragmentGpuMemory, LimitMemory, PressPageCache, memory::reading_rate},
    units::Bytes,
};

/// More room than this is no pressure.
const MOST_ROOM: Bytes = Bytes(1 << 30);
/// The driver hands GPU memory out in pieces of this size.
const DRIVER_PIECE: u64 = 2 << 20;

pub(super) fn limit(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<LimitMemory> {
    let left = leave(t, c);
    let rate = t.optional("rate").map_or(Some(None), |v| positive(v, c).map(Some));
    let swap = t.optional("swap").map_or(Some(false), |v| value::flag(v, c));
    Some(LimitMemory { leave: left?, rate: rate?, swap: swap? })
}

pub(super) fn page_cache(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<PressPageCache> {
    let room_at = t.required("room", "room = \"32 MiB\"", c);
    let room = room_at.and_then(|v| {
        let room = positive(v, c)?;
        if room > MOST_ROOM {
            c.at(v.span(), "so much room is no pressure", format!("at most \"{MOST_ROOM}\""));
            return None;
        }
        Some(room)
    });
    let rate = t.optional("rate").map_or(Some(reading_rate()), |v| positive(v, c));
    Some(PressPageCache { room: room?, rate: rate? })
}

pub(super) fn fragment(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<FragmentGpuMemory> {
    let left = leave(t, c);
    let piece_at = t.required("piece", "piece = \"2 MiB\"", c)?;
    let piece = value::size(piece_at, c)?;
    if piece.0 == 0 || piece.0 % DRIVER_PIECE != 0 {
        let what = "the driver hands memory out in pieces of 2 MiB";
        c.at(piece_at.span(), what, "a multiple of 2 MiB");
        return None;
    }
    let left = left?;
    if left.0 < piece.0 {
        let what = format!("what stays free, {left}, is less than one piece");
        c.at(piece_at.span(), what, "a piece no larger than `leave`");
        return None;
    }
    Some(FragmentGpuMemory { leave: left, piece })
}

fn positive(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Bytes> {
    let found = value::size(v, c)?;
    if found == Bytes(0) {
        c.at(v.span(), "this is nothing at all", "a size above 0 B");
        return None;
    }
    Some(found)
}
