//! Faults of ports, /dev/shm, memory, storage and clocks, as the wire says them.

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    fault::{
        ExhaustPorts, ExhaustShmInodes, FillShm, FillStorage, FragmentGpuMemory, HoldGpuMemory,
        LimitMemory, LimitShm, MuteListener, NarrowPorts, PortRole, PressPageCache, ShiftClock,
        SlowLog, SlowStorage, StaleShm, TakePort,
    },
    units::{Bytes, Nanos},
};

use super::{WireError, port};

pub(super) fn take_port(message: &v1::TakePort) -> Result<TakePort, WireError> {
    let role = match message.role.as_str() {
        // Empty is what controllers before roles say.
        "" | "rendezvous" => PortRole::Rendezvous,
        "ras" => PortRole::Ras,
        other => {
            let given = format!("{other:?}");
            return Err(WireError::value("the role of a port", given, "rendezvous or ras"));
        }
    };
    Ok(TakePort { port: port(message.port)?, role })
}

pub(super) fn mute_listener(message: &v1::MuteListener) -> Result<MuteListener, WireError> {
    port(message.port).map(|port| MuteListener { port })
}

pub(super) fn exhaust_ports(message: &v1::ExhaustPorts) -> Result<ExhaustPorts, WireError> {
    count(message.leave).map(|leave| ExhaustPorts { leave })
}

pub(super) fn narrow_ports(message: &v1::NarrowPorts) -> Result<NarrowPorts, WireError> {
    match count(message.to)? {
        0 => Err(WireError::value("the number of ports", 0, "at least 1")),
        to => Ok(NarrowPorts { to }),
    }
}

fn count(ports: u32) -> Result<u16, WireError> {
    u16::try_from(ports)
        .map_err(|_| WireError::value("the number of ports", ports, "at most 65535"))
}

pub(super) fn limit_shm(message: &v1::LimitShm) -> LimitShm {
    LimitShm { to: Bytes(message.to_bytes) }
}

pub(super) fn fill_shm(message: &v1::FillShm) -> FillShm {
    FillShm { leave: Bytes(message.leave_bytes) }
}

pub(super) fn exhaust_inodes(message: &v1::ExhaustShmInodes) -> ExhaustShmInodes {
    ExhaustShmInodes { leave: message.leave }
}

pub(super) fn stale_shm(message: &v1::StaleShm) -> StaleShm {
    StaleShm { files: message.files, each: Bytes(message.each_bytes) }
}

pub(super) fn limit_memory(message: &v1::LimitMemory) -> LimitMemory {
    let v1::LimitMemory { leave_bytes, rate_bytes, swap } = message;
    LimitMemory { leave: Bytes(*leave_bytes), rate: rate_bytes.map(Bytes), swap: *swap }
}

pub(super) fn page_cache(message: &v1::PressPageCache) -> PressPageCache {
    PressPageCache { room: Bytes(message.room_bytes), rate: Bytes(message.rate_bytes) }
}

pub(super) fn hold_gpu_memory(message: &v1::HoldGpuMemory) -> HoldGpuMemory {
    HoldGpuMemory { leave: Bytes(message.leave_bytes) }
}

pub(super) fn fragment(message: &v1::FragmentGpuMemory) -> FragmentGpuMemory {
    FragmentGpuMemory { leave: Bytes(message.leave_bytes), piece: Bytes(message.piece_bytes) }
}

pub(super) fn shift_clock(message: &v1::ShiftClock) -> ShiftClock {
    ShiftClock { ahead: Nanos(message.ahead_ns), behind: Nanos(message.behind_ns) }
}

pub(super) fn fill_storage(message: &v1::FillStorage) -> FillStorage {
    FillStorage { leave: Bytes(message.leave_bytes) }
}

pub(super) fn slow_storage(message: &v1::SlowStorage) -> SlowStorage {
    SlowStorage { by: Nanos(message.by_ns) }
}

pub(super) fn slow_log(message: &v1::SlowLog) -> SlowLog {
    SlowLog { rate: Bytes(message.rate_bytes) }
}
