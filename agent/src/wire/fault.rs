//! A fault as the wire says it.

use ringbreaker_proto::v1::{self, fault::Kind, trigger::When};
use ringbreaker_scenarios::{
    case::{FaultPlan, Target, Trigger},
    fault::{
        ActsOn, Delay, ExhaustPorts, ExhaustShmInodes, FaultKind, FillShm, FillStorage,
        FragmentGpuMemory, HoldGpuMemory, Kill, LimitMemory, LimitShm, Loss, MuteListener,
        NarrowPorts, Partition, PortRole, PressPageCache, Rate, ReadOnlyShm, ReadOnlyStorage,
        ShiftClock, Signal, SlowStorage, StaleShm, Stop, TakePort,
    },
    units::{Bytes, Nanos},
};

use super::{WireError, port, present, word};

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
        Kind::TakePort(v1::TakePort { port: number, role }) => {
            FaultKind::TakePort(TakePort { port: port(number)?, role: self::role(&role)? })
        }
        Kind::MuteListener(v1::MuteListener { port: number }) => {
            FaultKind::MuteListener(MuteListener { port: port(number)? })
        }
        Kind::ExhaustPorts(v1::ExhaustPorts { leave }) => {
            FaultKind::ExhaustPorts(ExhaustPorts { leave: ports(leave)? })
        }
        Kind::NarrowPorts(v1::NarrowPorts { to }) => {
            FaultKind::NarrowPorts(NarrowPorts { to: ports(to)? })
        }
        Kind::LimitShm(v1::LimitShm { to_bytes }) => {
            FaultKind::LimitShm(LimitShm { to: Bytes(to_bytes) })
        }
        Kind::FillShm(v1::FillShm { leave_bytes }) => {
            FaultKind::FillShm(FillShm { leave: Bytes(leave_bytes) })
        }
        Kind::ExhaustShmInodes(v1::ExhaustShmInodes { leave }) => {
            FaultKind::ExhaustShmInodes(ExhaustShmInodes { leave })
        }
        Kind::ReadOnlyShm(v1::ReadOnlyShm {}) => FaultKind::ReadOnlyShm(ReadOnlyShm {}),
        Kind::StaleShm(v1::StaleShm { files, each_bytes }) => {
            FaultKind::StaleShm(StaleShm { files, each: Bytes(each_bytes) })
        }
        Kind::LimitMemory(v1::LimitMemory { leave_bytes, rate_bytes, swap }) => {
            let (leave, rate) = (Bytes(leave_bytes), rate_bytes.map(Bytes));
            FaultKind::LimitMemory(LimitMemory { leave, rate, swap })
        }
        Kind::PressPageCache(v1::PressPageCache { room_bytes, rate_bytes }) => {
            let (room, rate) = (Bytes(room_bytes), Bytes(rate_bytes));
            FaultKind::PressPageCache(PressPageCache { room, rate })
        }
        Kind::HoldGpuMemory(v1::HoldGpuMemory { leave_bytes }) => {
            FaultKind::HoldGpuMemory(HoldGpuMemory { leave: Bytes(leave_bytes) })
        }
        Kind::FragmentGpuMemory(v1::FragmentGpuMemory { leave_bytes, piece_bytes }) => {
            let (leave, piece) = (Bytes(leave_bytes), Bytes(piece_bytes));
            FaultKind::FragmentGpuMemory(FragmentGpuMemory { leave, piece })
        }
        Kind::ShiftClock(v1::ShiftClock { ahead_ns, behind_ns }) => {
            let (ahead, behind) = (Nanos(ahead_ns), Nanos(behind_ns));
            FaultKind::ShiftClock(ShiftClock { ahead, behind })
        }
        Kind::FillStorage(v1::FillStorage { leave_bytes }) => {
            FaultKind::FillStorage(FillStorage { leave: Bytes(leave_bytes) })
        }
        Kind::ReadOnlyStorage(v1::ReadOnlyStorage {}) => {
            FaultKind::ReadOnlyStorage(ReadOnlyStorage {})
        }
        Kind::SlowStorage(v1::SlowStorage { by_ns }) => {
            FaultKind::SlowStorage(SlowStorage { by: Nanos(by_ns) })
        }
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

/// Empty is what agents before roles were told.
fn role(text: &str) -> Result<PortRole, WireError> {
    match text {
        "" | "rendezvous" => Ok(PortRole::Rendezvous),
        "ras" => Ok(PortRole::Ras),
        other => {
            Err(WireError::value("the role of a port", format!("{other:?}"), "rendezvous or ras"))
        }
    }
}

fn ports(number: u32) -> Result<u16, WireError> {
    u16::try_from(number)
        .map_err(|_| WireError::value("the number of ports", number, "at most 65535"))
}

fn signal(text: &str) -> Result<Signal, WireError> {
    match text {
        "KILL" => Ok(Signal::Kill),
        "TERM" => Ok(Signal::Term),
        other => Err(WireError::value("the signal", format!("{other:?}"), "KILL or TERM")),
    }
}
