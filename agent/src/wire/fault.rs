//! A fault as the wire says it.

use ringbreaker_proto::v1::{self, fault::Kind, trigger::When};
use ringbreaker_scenarios::{
    case::{FaultPlan, Target, Trigger},
    fault::{
        ActsOn, Delay, FaultKind, Kill, Loss, Partition, Rate, ReadOnlyShm, ReadOnlyStorage,
        Signal, Stop,
    },
    units::Nanos,
};

use super::{WireError, kinds, present, word};

pub(super) fn plan(message: v1::Fault) -> Result<FaultPlan, WireError> {
    let v1::Fault { id, label, trigger, target, lasts_ns, lease_ns, kind } = message;
    // protobuf drops a member of a `oneof` that it does not know: it arrives as none.
    let unknown = |part| WireError::Unknown { fault: id, part, version: env!("CARGO_PKG_VERSION") };
    let when = present("trigger", trigger)?.when.ok_or_else(|| unknown("trigger"))?;
    if lease_ns == 0 {
        return Err(WireError::value("the lease of a fault", "0", "longer than nothing"));
    }
    Ok(FaultPlan {
        id,
        label,
        kind: self::kind(kind.ok_or_else(|| unknown("kind"))?)?,
        when: self::trigger(when)?,
        target: self::target(present("target", target)?),
        lasts: lasts_ns.map(Nanos),
        lease: Nanos(lease_ns),
    })
}

/// Every target exists, and there is one of the sort that the kind acts on.
pub(super) fn check_target(fault: &FaultPlan, nodes: u32, world: u32) -> Result<(), WireError> {
    let Target { ranks, nodes: on_nodes, directions } = &fault.target;
    let known = ranks.iter().all(|rank| *rank < world)
        && on_nodes.iter().all(|node| *node < nodes)
        && directions.iter().all(|(from, to)| from != to && from.max(to) < &nodes);
    let aimed = match fault.kind.acts_on() {
        ActsOn::Ranks => !ranks.is_empty(),
        ActsOn::Nodes => !on_nodes.is_empty(),
        ActsOn::Links => !directions.is_empty(),
    };
    if known && aimed {
        return Ok(());
    }
    let given = format!("{:?} (fault {}, {})", fault.target, fault.id, fault.kind.name());
    Err(WireError::value("a target", given, "a rank, node or link of this cluster"))
}

fn trigger(when: When) -> Result<Trigger, WireError> {
    Ok(match when {
        When::AfterNs(after) => Trigger::After(Nanos(after)),
        When::Iteration(iteration) => Trigger::Iteration(iteration),
        When::Phase(phase) => Trigger::Phase(word("the phase of a trigger", &phase)?),
    })
}

fn target(message: v1::Target) -> Target {
    let v1::Target { ranks, nodes, directions } = message;
    let directions = directions.into_iter().map(|v1::Direction { from, to }| (from, to)).collect();
    Target { ranks, nodes, directions }
}

fn kind(message: Kind) -> Result<FaultKind, WireError> {
    Ok(match message {
        Kind::Kill(v1::Kill { signal }) => FaultKind::Kill(Kill { signal: self::signal(&signal)? }),
        Kind::Stop(v1::Stop {}) => FaultKind::Stop(Stop {}),
        Kind::TakePort(port) => FaultKind::TakePort(kinds::take_port(&port)?),
        Kind::MuteListener(port) => FaultKind::MuteListener(kinds::mute_listener(&port)?),
        Kind::ExhaustPorts(ports) => FaultKind::ExhaustPorts(kinds::exhaust_ports(&ports)?),
        Kind::NarrowPorts(ports) => FaultKind::NarrowPorts(kinds::narrow_ports(&ports)?),
        Kind::LimitShm(shm) => FaultKind::LimitShm(kinds::limit_shm(&shm)),
        Kind::FillShm(shm) => FaultKind::FillShm(kinds::fill_shm(&shm)),
        Kind::ExhaustShmInodes(shm) => FaultKind::ExhaustShmInodes(kinds::exhaust_inodes(&shm)),
        Kind::ReadOnlyShm(v1::ReadOnlyShm {}) => FaultKind::ReadOnlyShm(ReadOnlyShm {}),
        Kind::StaleShm(shm) => FaultKind::StaleShm(kinds::stale_shm(&shm)),
        Kind::LimitMemory(memory) => FaultKind::LimitMemory(kinds::limit_memory(&memory)),
        Kind::PressPageCache(memory) => FaultKind::PressPageCache(kinds::page_cache(&memory)),
        Kind::HoldGpuMemory(gpu) => FaultKind::HoldGpuMemory(kinds::hold_gpu_memory(&gpu)),
        Kind::FragmentGpuMemory(gpu) => FaultKind::FragmentGpuMemory(kinds::fragment(&gpu)),
        Kind::ShiftClock(clock) => FaultKind::ShiftClock(kinds::shift_clock(&clock)),
        Kind::FillStorage(storage) => FaultKind::FillStorage(kinds::fill_storage(&storage)),
        Kind::ReadOnlyStorage(v1::ReadOnlyStorage {}) => {
            FaultKind::ReadOnlyStorage(ReadOnlyStorage {})
        }
        Kind::SlowStorage(storage) => FaultKind::SlowStorage(kinds::slow_storage(&storage)),
        Kind::SlowLog(log) => FaultKind::SlowLog(kinds::slow_log(&log)),
        Kind::Delay(v1::Delay { by_ns, jitter_ns }) => {
            FaultKind::Delay(Delay { by: Nanos(by_ns), jitter: Nanos(jitter_ns) })
        }
        Kind::Loss(v1::Loss { percent }) if percent > 0.0 && percent <= 100.0 => {
            FaultKind::Loss(Loss { percent })
        }
        Kind::Loss(v1::Loss { percent }) => {
            return Err(WireError::value("the loss", percent, "above 0 and at most 100 percent"));
        }
        Kind::Rate(v1::Rate { mbit }) if mbit > 0.0 && mbit.is_finite() => {
            FaultKind::Rate(Rate { mbit })
        }
        Kind::Rate(v1::Rate { mbit }) => {
            return Err(WireError::value("the rate", mbit, "above 0 Mbit/s"));
        }
        Kind::Partition(v1::Partition {}) => FaultKind::Partition(Partition {}),
    })
}

fn signal(text: &str) -> Result<Signal, WireError> {
    match text {
        "KILL" => Ok(Signal::Kill),
        "TERM" => Ok(Signal::Term),
        other => Err(WireError::value("the signal", format!("{other:?}"), "KILL or TERM")),
    }
}
