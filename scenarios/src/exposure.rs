//! Whether a fault can be felt at all, given what carries data between the ranks.
//!
//! The agent asks when the ranks are connected and before it injects, the controller before it hands a
//! case out, reports when no witness saw an effect: one function for all three, so that they agree.

use std::{collections::BTreeSet, fmt};

use crate::{
    case::Trigger,
    fault::FaultKind,
    words::{Backend, Phase},
};

/// What carries data between ranks, as NCCL's log names it at INFO (`... via NET/Socket/0`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Between the memories of two GPUs of one host (NVLink, PCIe).
    P2p,
    /// Through /dev/shm or host memory of one host.
    Shm,
    /// Through the switches of NVLink (multicast).
    Nvls,
    /// TCP sockets.
    Socket,
    /// InfiniBand or RoCE verbs.
    Ib,
    /// A network of a plugin, or something else that we know nothing about.
    Other(String),
}

impl Transport {
    fn named(name: &str) -> Transport {
        match name {
            "P2P" => Transport::P2p,
            "SHM" => Transport::Shm,
            "NVLS" => Transport::Nvls,
            "NET/Socket" => Transport::Socket,
            "NET/IB" | "NET/IBext" => Transport::Ib,
            other => Transport::Other(other.to_owned()),
        }
    }
}

/// The transports of a job. Empty: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    found: BTreeSet<Transport>,
    names: BTreeSet<String>,
}

impl Transports {
    /// Adds what one rank told, such as `NET/Socket` or `P2P + SHM`.
    pub fn add(&mut self, told: &str) {
        for name in told.split(" + ").map(str::trim).filter(|name| !name.is_empty()) {
            self.found.insert(Transport::named(name));
            self.names.insert(name.to_owned());
        }
    }

    /// What is known before a rank runs: the stand-in has sockets alone.
    pub fn of_backend(backend: Backend) -> Transports {
        match backend {
            Backend::Host => ["NET/Socket"].into_iter().collect(),
            Backend::Nccl => Transports::default(),
        }
    }
}

impl<'a> FromIterator<&'a str> for Transports {
    fn from_iter<T: IntoIterator<Item = &'a str>>(told: T) -> Transports {
        let mut transports = Transports::default();
        told.into_iter().for_each(|name| transports.add(name));
        transports
    }
}

impl fmt::Display for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        f.pad(&names.join(" + "))
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// The fault touches something that the job uses.
    Exposed,
    /// Nobody knows; the witness will tell.
    Unknown,
    /// It cannot be felt, for this reason.
    Not(String),
}

/// What of a job a kind of fault touches.
enum Touches {
    /// Processes, their clocks, their memory; or what every communicator needs whatever carries its data
    /// (the bootstrap always goes over TCP).
    Everybody,
    /// Files in /dev/shm.
    Shm,
    /// Memory of a GPU.
    Gpu,
    /// Packets between nodes.
    Packets,
}

const fn touches(kind: &FaultKind) -> Touches {
    match kind {
        FaultKind::Kill(_)
        | FaultKind::Stop(_)
        | FaultKind::LimitMemory(_)
        | FaultKind::PressPageCache(_)
        | FaultKind::ShiftClock(_)
        | FaultKind::TakePort(_)
        | FaultKind::MuteListener(_)
        | FaultKind::ExhaustPorts(_)
        | FaultKind::NarrowPorts(_)
        | FaultKind::FillStorage(_)
        | FaultKind::ReadOnlyStorage(_)
        | FaultKind::SlowStorage(_)
        | FaultKind::SlowLog(_) => Touches::Everybody,
        FaultKind::LimitShm(_)
        | FaultKind::FillShm(_)
        | FaultKind::ExhaustShmInodes(_)
        | FaultKind::ReadOnlyShm(_)
        | FaultKind::StaleShm(_) => Touches::Shm,
        FaultKind::HoldGpuMemory(_) | FaultKind::FragmentGpuMemory(_) => Touches::Gpu,
        FaultKind::Delay(_) | FaultKind::Loss(_) | FaultKind::Rate(_) | FaultKind::Partition(_) => {
            Touches::Packets
        }
    }
}

/// Whether a fault that is triggered so can be felt by a job of this backend that is connected so.
pub fn exposure(
    kind: &FaultKind,
    when: Trigger,
    backend: Backend,
    transports: &Transports,
) -> Exposure {
    match touches(kind) {
        Touches::Everybody => Exposure::Exposed,
        Touches::Shm => of_shm(transports),
        Touches::Gpu => match backend {
            Backend::Nccl => Exposure::Exposed,
            Backend::Host => Exposure::Not("the host stand-in uses no GPU".to_owned()),
        },
        Touches::Packets => of_packets(when, transports),
    }
}

/// NCCL takes segments for SHM and for its network proxy; P2P and NVLS take some in special cases only
/// (NCCL source 2.30.7, src/proxy.cc and src/transport/).
fn of_shm(transports: &Transports) -> Exposure {
    use Transport::{Ib, Shm, Socket};
    match transports.found.iter().any(|t| matches!(t, Shm | Socket | Ib)) {
        true => Exposure::Exposed,
        false => Exposure::Unknown,
    }
}

fn of_packets(when: Trigger, transports: &Transports) -> Exposure {
    use Transport::{Ib, Nvls, Other, P2p, Shm, Socket};
    if meets_bootstrap(when) {
        return Exposure::Exposed;
    }
    let is = |wanted: fn(&Transport) -> bool| transports.found.iter().any(wanted);
    if is(|t| matches!(t, Socket)) {
        return Exposure::Exposed;
    }
    if transports.found.is_empty() || is(|t| matches!(t, Other(_))) {
        return Exposure::Unknown;
    }
    if is(|t| matches!(t, Ib)) {
        return Exposure::Not(format!(
            "data goes by {transports}, around the network that ringbreaker shapes"
        ));
    }
    debug_assert!(transports.found.iter().all(|t| matches!(t, P2p | Shm | Nvls)));
    Exposure::Not(format!("data goes by {transports}: no packet crosses a link"))
}

/// The bootstrap and the making of connections go over TCP, whatever carries data later.
fn meets_bootstrap(when: Trigger) -> bool {
    matches!(when, Trigger::Phase(Phase::BeforeInit | Phase::Init | Phase::FirstOp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fault::{Delay, FillShm, HoldGpuMemory, Partition, Stop, TakePort},
        units::{Bytes, Nanos},
    };

    const STEADY: Trigger = Trigger::Iteration(5);

    fn answer(kind: &FaultKind, when: Trigger, told: &[&str]) -> &'static str {
        let transports = told.iter().copied().collect();
        match exposure(kind, when, Backend::Nccl, &transports) {
            Exposure::Exposed => "exposed",
            Exposure::Unknown => "unknown",
            Exposure::Not(reason) => {
                assert!(!reason.is_empty());
                "not"
            }
        }
    }

    #[test]
    fn each_kind_meets_each_transport() {
        let delay = FaultKind::Delay(Delay { by: Nanos(1), jitter: Nanos::ZERO });
        let partition = FaultKind::Partition(Partition {});
        let fill = FaultKind::FillShm(FillShm { leave: Bytes(0) });
        let gpu = FaultKind::HoldGpuMemory(HoldGpuMemory { leave: Bytes(0) });
        let stop = FaultKind::Stop(Stop {});
        let port = FaultKind::TakePort(TakePort::default());
        let transports: [&[&str]; 9] = [
            &["NET/Socket"],
            &["NET/IB"],
            &["P2P"],
            &["SHM"],
            &["NVLS"],
            &["P2P + SHM", "P2P"],
            &["P2P + NET/Socket"],
            &["NET/Libfabric"],
            &[],
        ];
        let table = [
            (
                &delay,
                ["exposed", "not", "not", "not", "not", "not", "exposed", "unknown", "unknown"],
            ),
            (
                &partition,
                ["exposed", "not", "not", "not", "not", "not", "exposed", "unknown", "unknown"],
            ),
            (
                &fill,
                [
                    "exposed", "exposed", "unknown", "exposed", "unknown", "exposed", "exposed",
                    "unknown", "unknown",
                ],
            ),
            (&gpu, ["exposed"; 9]),
            (&stop, ["exposed"; 9]),
            (&port, ["exposed"; 9]),
        ];
        for (kind, want) in table {
            let found = transports.map(|told| answer(kind, STEADY, told));
            assert_eq!(found, want, "{}", kind.name());
        }
    }

    #[test]
    fn packets_matter_while_ranks_find_each_other_whatever_carries_data_later() {
        let partition = FaultKind::Partition(Partition {});
        for (when, want) in [
            (Trigger::Phase(Phase::BeforeInit), "exposed"),
            (Trigger::Phase(Phase::Init), "exposed"),
            (Trigger::Phase(Phase::FirstOp), "exposed"),
            (Trigger::Phase(Phase::Steady), "not"),
            (Trigger::Phase(Phase::Abort), "not"),
            (Trigger::After(Nanos(1)), "not"),
        ] {
            assert_eq!(answer(&partition, when, &["P2P"]), want, "{when:?}");
        }
    }

    #[test]
    fn the_reason_names_what_carries_data() {
        let partition = FaultKind::Partition(Partition {});
        let transports = ["SHM", "P2P"].into_iter().collect();
        let Exposure::Not(reason) = exposure(&partition, STEADY, Backend::Nccl, &transports) else {
            panic!("exposed")
        };
        assert_eq!(reason, "data goes by P2P + SHM: no packet crosses a link");
    }

    #[test]
    fn the_stand_in_has_sockets_and_no_gpu() {
        let transports = Transports::of_backend(Backend::Host);
        let ask = |kind| exposure(&kind, STEADY, Backend::Host, &transports);
        assert_eq!(ask(FaultKind::Partition(Partition {})), Exposure::Exposed);
        let gpu = FaultKind::HoldGpuMemory(HoldGpuMemory { leave: Bytes(0) });
        assert!(matches!(ask(gpu), Exposure::Not(reason) if reason.contains("no GPU")));
    }
}
