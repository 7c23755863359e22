//! `inject.KIND = { ... }`: the kind of a fault and its parameters.

use super::{
    table::{Entry, Table},
    value,
};
use crate::{
    fault::{
        Delay, ExhaustPorts, FaultKind, FillShm, HoldGpuMemory, Kill, LimitMemory, LimitShm, Loss,
        Partition, Rate, Signal, Stop, TakePort,
    },
    nearest,
    problem::Collector,
    units::{Bytes, Nanos},
};

/// Reads the table `inject`: exactly one kind.
pub(super) fn kind(t: Table<'_, '_>, c: &mut Collector<'_>) -> Option<FaultKind> {
    let entries = t.entries();
    let [entry] = entries.as_slice() else {
        let names: Vec<&str> = entries.iter().map(|e| e.key).collect();
        let message = match names.as_slice() {
            [] => "inject names no kind of fault".to_owned(),
            _ => format!("inject names several kinds: {}", names.join(", ")),
        };
        c.at(t.span(), message, format!("one of: {}", FaultKind::NAMES.join(", ")));
        return None;
    };
    let Entry { key, key_span, value } = entry;
    if !FaultKind::NAMES.contains(key) {
        let message = format!("there is no kind of fault {key:?}");
        c.at(key_span.clone(), message, nearest::hint(key, FaultKind::NAMES));
        return None;
    }
    let mut t = Table::of(value, format!("inject.{key}"), &format!("inject.{key} = {{}}"), c)?;
    let kind = match *key {
        "kill" => signal(&mut t, c).map(|signal| FaultKind::Kill(Kill { signal })),
        "stop" => Some(FaultKind::Stop(Stop {})),
        "take_port" => take_port(&mut t, c).map(FaultKind::TakePort),
        "exhaust_ports" => exhaust_ports(&mut t, c).map(FaultKind::ExhaustPorts),
        "limit_shm" => {
            size(&mut t, "to", "to = \"1 MiB\"", c).map(|to| FaultKind::LimitShm(LimitShm { to }))
        }
        "fill_shm" => leave(&mut t, c).map(|leave| FaultKind::FillShm(FillShm { leave })),
        "limit_memory" => {
            leave(&mut t, c).map(|leave| FaultKind::LimitMemory(LimitMemory { leave }))
        }
        "hold_gpu_memory" => {
            leave(&mut t, c).map(|leave| FaultKind::HoldGpuMemory(HoldGpuMemory { leave }))
        }
        "delay" => delay(&mut t, c).map(FaultKind::Delay),
        "loss" => number(&mut t, "percent", "percent = 1", 100.0, c)
            .map(|percent| FaultKind::Loss(Loss { percent })),
        "rate" => number(&mut t, "mbit", "mbit = 100", 1_000_000.0, c)
            .map(|mbit| FaultKind::Rate(Rate { mbit })),
        "partition" => Some(FaultKind::Partition(Partition {})),
        other => unreachable!("{other} is in FaultKind::NAMES and not read here"),
    };
    t.finish(c);
    kind
}

fn signal(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<Signal> {
    let Some(v) = t.optional("signal") else { return Some(Signal::default()) };
    match value::string(v, c)?.as_str() {
        "KILL" => Some(Signal::Kill),
        "TERM" => Some(Signal::Term),
        other => {
            c.at(
                v.span(),
                format!("a rank is not ended with the signal {other:?}"),
                "\"KILL\" or \"TERM\"",
            );
            None
        }
    }
}

fn take_port(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<TakePort> {
    match t.optional("port") {
        None => Some(TakePort { port: None }),
        Some(v) => {
            let port = value::whole(v, 1, u32::from(u16::MAX), c)?;
            Some(TakePort { port: u16::try_from(port).ok() })
        }
    }
}

fn exhaust_ports(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<ExhaustPorts> {
    match t.optional("leave") {
        None => Some(ExhaustPorts { leave: 0 }),
        Some(v) => {
            let leave = value::whole(v, 0, u32::from(u16::MAX), c)?;
            u16::try_from(leave).ok().map(|leave| ExhaustPorts { leave })
        }
    }
}

fn delay(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<Delay> {
    let by = t.required("by", "by = \"5ms\"", c);
    let by = by.and_then(|v| value::positive_duration(v, c));
    let jitter = t.optional("jitter").map_or(Some(Nanos::ZERO), |v| value::duration(v, c));
    Some(Delay { by: by?, jitter: jitter? })
}

fn leave(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<Bytes> {
    size(t, "leave", "leave = \"1 MiB\"", c)
}

fn size(
    t: &mut Table<'_, '_>,
    key: &'static str,
    right: &str,
    c: &mut Collector<'_>,
) -> Option<Bytes> {
    t.required(key, right, c).and_then(|v| value::size(v, c))
}

fn number(
    t: &mut Table<'_, '_>,
    key: &'static str,
    right: &str,
    high: f64,
    c: &mut Collector<'_>,
) -> Option<f64> {
    t.required(key, right, c).and_then(|v| value::positive_number(v, high, c))
}
