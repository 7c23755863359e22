//! Faults of TCP ports, as files write them.

use super::{Collector, Table, value};
use crate::fault::{ExhaustPorts, MuteListener, NarrowPorts, PortRole, TakePort};

/// More automatic ports than this is no scarcity.
const MOST_PORTS: u32 = 16_384;

pub(super) fn take(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<TakePort> {
    let port = number(t, c)?;
    let Some(v) = t.optional("role") else {
        return Some(TakePort { port, role: PortRole::default() });
    };
    let role = match value::string(v, c)?.as_str() {
        "rendezvous" => PortRole::Rendezvous,
        "ras" => PortRole::Ras,
        other => {
            let what = format!("{other:?} is no port that NCCL is known to want");
            c.at(v.span(), what, "\"rendezvous\" (NCCL_COMM_ID) or \"ras\" (28028)");
            return None;
        }
    };
    if port.is_some() {
        c.at(
            v.span(),
            "a port has either a number or a role",
            "port = ... or role = ..., not both",
        );
        return None;
    }
    Some(TakePort { port, role })
}

pub(super) fn mute(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<MuteListener> {
    number(t, c).map(|port| MuteListener { port })
}

pub(super) fn exhaust(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<ExhaustPorts> {
    let Some(v) = t.optional("leave") else { return Some(ExhaustPorts { leave: 0 }) };
    let leave = value::whole(v, 0, MOST_PORTS, c)?;
    u16::try_from(leave).ok().map(|leave| ExhaustPorts { leave })
}

pub(super) fn narrow(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<NarrowPorts> {
    let v = t.required("to", "to = 4", c)?;
    let to = value::whole(v, 1, MOST_PORTS, c)?;
    u16::try_from(to).ok().map(|to| NarrowPorts { to })
}

/// The optional key `port`; none: it was wrong.
fn number(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<Option<u16>> {
    let Some(v) = t.optional("port") else { return Some(None) };
    let port = value::whole(v, 1, u32::from(u16::MAX), c)?;
    u16::try_from(port).ok().map(Some)
}
