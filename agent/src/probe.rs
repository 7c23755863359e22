//! What this machine is and which faults it can carry, with reasons.
//!
//! The agent sends it when it registers, `ringbreaker doctor` prints it. Everything is found out by
//! doing: a node is built, a cgroup made, the GPU driver asked, and all of it taken away again.

use std::{
    path::{Path, PathBuf},
    process, thread,
};

use nix::sys::utsname::uname;
use ringbreaker_proto::v1::{FaultAbility, Gpu, NcclLibrary, NodeProbe};
use ringbreaker_scenarios::{event::Isolation, fault::FaultKind, units::Bytes};

use crate::{
    gpu,
    node::{self, Probed},
    sys::{
        cgroup::{Cgroup, Version},
        filesystem, procfs,
    },
};

/// What decides which faults are possible.
#[derive(Clone, Debug)]
struct Ground {
    isolation: Isolation,
    /// Why isolation is not better; empty when nothing is missing.
    no_isolation: String,
    /// The kind of cgroup, or why there is none.
    cgroups: Result<Version, String>,
    /// The GPUs, or why there is none.
    gpus: Result<Vec<Gpu>, String>,
}

/// Looks at this machine; takes some 10 ms, more with a GPU. `nccl` are libraries to look at beside
/// those in the usual places.
pub fn probe(nccl: &[PathBuf]) -> NodeProbe {
    probe_as(&node::tag(), nccl)
}

/// The cgroups that [`probe_as`] makes and removes, for the journal.
pub(crate) fn planned_cgroups(tag: &str) -> Vec<PathBuf> {
    let own = Cgroup::planned_paths(&version_probe(tag)).unwrap_or_default();
    node::planned_cgroups(tag).into_iter().chain(own).collect()
}

fn version_probe(tag: &str) -> String {
    format!("{tag}-version")
}

/// [`probe`] with a tag from [`node::tag`].
pub(crate) fn probe_as(tag: &str, nccl: &[PathBuf]) -> NodeProbe {
    let found = gpu::find(nccl);
    let gpus: Vec<Gpu> = found.gpus.into_iter().map(gpu).collect();
    let none = || found.missing.join("; ");
    let ground = Ground::look(tag, if gpus.is_empty() { Err(none()) } else { Ok(gpus) });
    let (kernel, hostname) = uname().map_or_else(
        |_| (String::new(), String::new()),
        |name| {
            let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
            (text(name.release()), text(name.nodename()))
        },
    );
    NodeProbe {
        hostname,
        kernel,
        cpus: thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(0)),
        memory_bytes: procfs::memory_total().unwrap_or_default().0,
        shm_bytes: filesystem::space(Path::new("/dev/shm")).map_or(Bytes(0), |space| space.size).0,
        isolation: isolation_word(ground.isolation).to_owned(),
        cgroups: match ground.cgroups {
            Ok(Version::V1) => "v1".to_owned(),
            Ok(Version::V2) => "v2".to_owned(),
            Err(_) => String::new(),
        },
        faults: FaultKind::NAMES.iter().map(|kind| ground.ability(kind)).collect(),
        gpus: ground.gpus.unwrap_or_default(),
        nccl: found.nccl.into_iter().map(library).collect(),
        pid: process::id(),
    }
}

/// As the wire spells it.
const fn isolation_word(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Namespaces => "namespaces",
        Isolation::UserNamespace => "user-namespace",
        Isolation::Plain => "plain",
    }
}

impl Ground {
    fn look(tag: &str, gpus: Result<Vec<Gpu>, String>) -> Ground {
        let Probed { isolation, reasons } = node::isolation_as(tag);
        let no_isolation = reasons.join("; ");
        let cgroups = match isolation {
            Isolation::Namespaces => cgroup_version(tag),
            Isolation::UserNamespace | Isolation::Plain => Err(no_isolation.clone()),
        };
        Ground { isolation, no_isolation, cgroups, gpus }
    }

    fn ability(&self, kind: &str) -> FaultAbility {
        let answer = self.possible(kind);
        FaultAbility {
            kind: kind.to_owned(),
            possible: answer.is_ok(),
            reason: answer.err().unwrap_or_default(),
        }
    }

    /// Whether a kind is possible here, or why not.
    fn possible(&self, kind: &str) -> Result<(), String> {
        match kind {
            "kill" | "stop" | "slow_log" => Ok(()),
            "take_port" | "mute_listener" | "exhaust_ports" | "narrow_ports" | "limit_shm"
            | "fill_shm" | "shift_clock" | "exhaust_shm_inodes" | "read_only_shm" | "stale_shm"
            | "fill_storage" | "read_only_storage" | "delay" | "loss" | "rate" | "partition" => {
                match self.isolation {
                    Isolation::Namespaces | Isolation::UserNamespace => Ok(()),
                    Isolation::Plain => Err(format!("no namespaces: {}", self.no_isolation)),
                }
            }
            "slow_storage" => match self.isolation {
                Isolation::Namespaces => Ok(()),
                Isolation::UserNamespace | Isolation::Plain => {
                    Err(format!("holding up file opens needs root: {}", self.no_isolation))
                }
            },
            "limit_memory" | "press_page_cache" => self.cgroups.clone().map(drop),
            "hold_gpu_memory" | "fragment_gpu_memory" => self.gpus.clone().map(drop),
            other => Err(format!("this agent does not know {other}")),
        }
    }
}

fn cgroup_version(tag: &str) -> Result<Version, String> {
    let group = Cgroup::create(&version_probe(tag)).map_err(|error| error.to_string())?;
    let version = group.version();
    group.remove().map_err(|error| error.to_string())?;
    Ok(version)
}

fn gpu(found: gpu::GpuInfo) -> Gpu {
    Gpu {
        index: found.index,
        name: found.name,
        uuid: found.uuid,
        driver: found.driver,
        memory_bytes: found.total_bytes,
        free_bytes: found.free_bytes,
    }
}

fn library(found: gpu::NcclInfo) -> NcclLibrary {
    NcclLibrary {
        path: found.path.to_string_lossy().into_owned(),
        version: found.version,
        optional_symbols: found.optional_symbols,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(isolation: Isolation, cgroups: bool, gpu: bool) -> Ground {
        let missing = || "missing".to_owned();
        Ground {
            isolation,
            no_isolation: missing(),
            cgroups: cgroups.then_some(Version::V2).ok_or_else(missing),
            gpus: gpu.then(Vec::new).ok_or_else(missing),
        }
    }

    #[test]
    fn a_machine_with_everything_can_carry_every_kind() {
        let rich = ground(Isolation::Namespaces, true, true);
        for kind in FaultKind::NAMES {
            assert_eq!(rich.possible(kind), Ok(()), "{kind}");
        }
    }

    #[test]
    fn what_is_missing_takes_away_just_the_kinds_that_need_it_and_says_so() {
        let impossible = |ground: Ground| -> Vec<&str> {
            let all = FaultKind::NAMES.iter().copied();
            all.filter(|kind| {
                let ability = ground.ability(kind);
                assert_eq!(ability.possible, ability.reason.is_empty(), "{kind}");
                !ability.possible
            })
            .collect()
        };
        assert_eq!(
            impossible(ground(Isolation::Namespaces, true, false)),
            ["hold_gpu_memory", "fragment_gpu_memory"]
        );
        assert_eq!(
            impossible(ground(Isolation::UserNamespace, false, true)),
            ["limit_memory", "press_page_cache", "slow_storage"]
        );
        let plain = impossible(ground(Isolation::Plain, false, false));
        assert_eq!(plain.len(), FaultKind::NAMES.len() - 3, "{plain:?}");
        for kind in ["kill", "stop", "slow_log"] {
            assert!(!plain.contains(&kind), "{kind}");
        }
    }

    #[test]
    fn this_machine_has_a_kernel_memory_and_an_answer_for_every_kind() {
        let probe = probe(&[]);
        assert!(!probe.kernel.is_empty() && probe.cpus > 0 && probe.memory_bytes > 0);
        let kinds: Vec<&str> = probe.faults.iter().map(|ability| ability.kind.as_str()).collect();
        assert_eq!(kinds, FaultKind::NAMES);
        assert_eq!(probe.pid, process::id());
    }
}
