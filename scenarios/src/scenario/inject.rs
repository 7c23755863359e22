//! `inject.KIND = { ... }`: the kind of a fault and its parameters.

mod clock;
mod memory;
mod port;
mod shm;

use super::{
    table::{Entry, Table},
    value,
};
use crate::{
    fault::{
        Delay, FaultKind, FillShm, FillStorage, HoldGpuMemory, Kill, Loss, Partition, Rate,
        ReadOnlyShm, ReadOnlyStorage, Signal, SlowLog, SlowStorage, Stop,
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
        "take_port" => port::take(&mut t, c).map(FaultKind::TakePort),
        "mute_listener" => port::mute(&mut t, c).map(FaultKind::MuteListener),
        "exhaust_ports" => port::exhaust(&mut t, c).map(FaultKind::ExhaustPorts),
        "narrow_ports" => port::narrow(&mut t, c).map(FaultKind::NarrowPorts),
        "limit_shm" => shm::limit(&mut t, c).map(FaultKind::LimitShm),
        "fill_shm" => leave(&mut t, c).map(|leave| FaultKind::FillShm(FillShm { leave })),
        "exhaust_shm_inodes" => shm::inodes(&mut t, c).map(FaultKind::ExhaustShmInodes),
        "read_only_shm" => Some(FaultKind::ReadOnlyShm(ReadOnlyShm {})),
        "stale_shm" => shm::stale(&mut t, c).map(FaultKind::StaleShm),
        "limit_memory" => memory::limit(&mut t, c).map(FaultKind::LimitMemory),
        "press_page_cache" => memory::page_cache(&mut t, c).map(FaultKind::PressPageCache),
        "hold_gpu_memory" => {
            leave(&mut t, c).map(|leave| FaultKind::HoldGpuMemory(HoldGpuMemory { leave }))
        }
        "fragment_gpu_memory" => memory::fragment(&mut t, c).map(FaultKind::FragmentGpuMemory),
        "fill_storage" => {
            leave(&mut t, c).map(|leave| FaultKind::FillStorage(FillStorage { leave }))
        }
        "read_only_storage" => Some(FaultKind::ReadOnlyStorage(ReadOnlyStorage {})),
        "slow_storage" => {
            let by = t.required("by", "by = \"2s\"", c);
            let by = by.and_then(|v| value::positive_duration(v, c));
            by.map(|by| FaultKind::SlowStorage(SlowStorage { by }))
        }
        "slow_log" => {
            let rate = t.optional("rate").map_or(Some(Bytes(0)), |v| value::size(v, c));
            rate.map(|rate| FaultKind::SlowLog(SlowLog { rate }))
        }
        "shift_clock" => clock::shift(&mut t, c).map(FaultKind::ShiftClock),
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
