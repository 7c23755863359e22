//! Faults of ports, /dev/shm, memory, storage and clocks as messages.

use ringbreaker_proto::v1;
use ringbreaker_scenarios::fault::{
    ExhaustPorts, ExhaustShmInodes, FillShm, FillStorage, FragmentGpuMemory, HoldGpuMemory,
    LimitMemory, LimitShm, MuteListener, NarrowPorts, PortRole, PressPageCache, ShiftClock,
    SlowLog, SlowStorage, StaleShm, TakePort,
};

pub(super) fn take_port(TakePort { port, role }: &TakePort) -> v1::TakePort {
    let role = match role {
        PortRole::Rendezvous => "rendezvous",
        PortRole::Ras => "ras",
    };
    v1::TakePort { port: port.map_or(0, u32::from), role: role.to_owned() }
}

pub(super) fn mute_listener(MuteListener { port }: &MuteListener) -> v1::MuteListener {
    v1::MuteListener { port: port.map_or(0, u32::from) }
}

pub(super) fn exhaust_ports(ExhaustPorts { leave }: &ExhaustPorts) -> v1::ExhaustPorts {
    v1::ExhaustPorts { leave: u32::from(*leave) }
}

pub(super) fn narrow_ports(NarrowPorts { to }: &NarrowPorts) -> v1::NarrowPorts {
    v1::NarrowPorts { to: u32::from(*to) }
}

pub(super) fn limit_shm(LimitShm { to }: &LimitShm) -> v1::LimitShm {
    v1::LimitShm { to_bytes: to.0 }
}

pub(super) fn fill_shm(FillShm { leave }: &FillShm) -> v1::FillShm {
    v1::FillShm { leave_bytes: leave.0 }
}

pub(super) fn exhaust_inodes(
    ExhaustShmInodes { leave }: &ExhaustShmInodes,
) -> v1::ExhaustShmInodes {
    v1::ExhaustShmInodes { leave: *leave }
}

pub(super) fn stale_shm(StaleShm { files, each }: &StaleShm) -> v1::StaleShm {
    v1::StaleShm { files: *files, each_bytes: each.0 }
}

pub(super) fn limit_memory(LimitMemory { leave, rate, swap }: &LimitMemory) -> v1::LimitMemory {
    let rate_bytes = rate.map(|rate| rate.0);
    v1::LimitMemory { leave_bytes: leave.0, rate_bytes, swap: *swap }
}

pub(super) fn page_cache(PressPageCache { room, rate }: &PressPageCache) -> v1::PressPageCache {
    v1::PressPageCache { room_bytes: room.0, rate_bytes: rate.0 }
}

pub(super) fn hold_gpu_memory(HoldGpuMemory { leave }: &HoldGpuMemory) -> v1::HoldGpuMemory {
    v1::HoldGpuMemory { leave_bytes: leave.0 }
}

pub(super) fn fragment(fault: &FragmentGpuMemory) -> v1::FragmentGpuMemory {
    let FragmentGpuMemory { leave, piece } = fault;
    v1::FragmentGpuMemory { leave_bytes: leave.0, piece_bytes: piece.0 }
}

pub(super) fn shift_clock(ShiftClock { ahead, behind }: &ShiftClock) -> v1::ShiftClock {
    v1::ShiftClock { ahead_ns: ahead.0, behind_ns: behind.0 }
}

pub(super) fn fill_storage(FillStorage { leave }: &FillStorage) -> v1::FillStorage {
    v1::FillStorage { leave_bytes: leave.0 }
}

pub(super) fn slow_storage(SlowStorage { by }: &SlowStorage) -> v1::SlowStorage {
    v1::SlowStorage { by_ns: by.0 }
}

pub(super) fn slow_log(SlowLog { rate }: &SlowLog) -> v1::SlowLog {
    v1::SlowLog { rate_bytes: rate.0 }
}
