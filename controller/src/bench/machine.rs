//! What the ranks of a benchmark run on: the backend, its library, and a GPU for each.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use ringbreaker_agent::{bench::Machine, probe};
use ringbreaker_proto::v1;
use ringbreaker_scenarios::words::Backend;
use tempfile::TempDir;

use crate::{
    cli::{args::NcclPaths, documents::tell},
    error::{Error, Expected, Internal},
    run::preflight,
};

/// Arguments of benchmarks that start ranks without agents.
#[derive(Debug, Args)]
pub(super) struct MachineArgs {
    /// What ranks run: `host` or `nccl` [default: nccl where there are a GPU and libnccl]
    #[arg(long)]
    backend: Option<Backend>,
    #[command(flatten)]
    nccl: NcclPaths,
    /// Number of ranks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
}

impl MachineArgs {
    /// The machine, and the directory that must live as long as the benchmark.
    pub(super) fn machine(&self) -> Result<(Machine, TempDir), Error> {
        let probe = probe::probe(&self.nccl.nccl);
        let wished = self.backend.unwrap_or(Backend::Nccl).word();
        let choice = preflight::backend(self.backend, None, &probe)
            .map_err(|reason| Expected::NoBackend { backend: wished, reason })?;
        tell(&format!("backend {} ({})", choice.backend, choice.why));
        let scratch = tempfile::tempdir()
            .map_err(|source| Internal::Io { doing: "make a temporary directory", source })?;
        let machine = Machine {
            backend: choice.backend,
            world: self.ranks,
            nccl: self.nccl.nccl.first().cloned().or_else(|| found(&probe, choice.backend)),
            ranks: ranks(self.ranks, choice.backend, &probe),
            directory: scratch.path().to_owned(),
        };
        Ok((machine, scratch))
    }
}

/// What every table about ranks must say first.
pub(super) fn heading(machine: &Machine) -> String {
    let mut text = format!("# backend {}, {} ranks", machine.backend, machine.world);
    if let Some(library) = machine.nccl.as_ref().filter(|_| machine.backend == Backend::Nccl) {
        text.push_str(&format!(", {}", library.display()));
    }
    text.push('\n');
    if machine.backend == Backend::Host {
        text.push_str("# host stand-in: rehearses the harness, says nothing about your NCCL\n");
    }
    text
}

fn found(probe: &v1::NodeProbe, backend: Backend) -> Option<PathBuf> {
    let library = probe.nccl.first().filter(|_| backend == Backend::Nccl)?;
    Some(library.path.clone().into())
}

/// Ranks share GPUs where there are fewer of them; NCCL allows that between hosts alone, so each
/// then claims a host of its own.
fn ranks(
    world: u32,
    backend: Backend,
    probe: &v1::NodeProbe,
) -> Vec<(Option<u32>, BTreeMap<String, String>)> {
    let gpus = u32::try_from(probe.gpus.len()).unwrap_or(u32::MAX);
    if backend == Backend::Host || gpus == 0 {
        return Vec::new();
    }
    let setup = |rank: u32| {
        let host = ("NCCL_HOSTID".to_owned(), format!("ringbreaker-bench-{rank}"));
        (Some(rank % gpus), if world > gpus { BTreeMap::from([host]) } else { BTreeMap::new() })
    };
    (0..world).map(setup).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_share_a_gpu_claim_hosts_of_their_own() {
        let mut probe = v1::NodeProbe::default();
        assert!(ranks(2, Backend::Host, &probe).is_empty());
        probe.gpus = vec![v1::Gpu::default()];
        let shared = ranks(2, Backend::Nccl, &probe);
        assert_eq!((shared[0].0, shared[1].0), (Some(0), Some(0)));
        assert_ne!(shared[0].1["NCCL_HOSTID"], shared[1].1["NCCL_HOSTID"]);
        probe.gpus.push(v1::Gpu::default());
        assert!(ranks(2, Backend::Nccl, &probe).iter().all(|(_, env)| env.is_empty()));
    }

    #[test]
    fn a_table_of_the_stand_in_says_so() {
        let machine = |backend| Machine {
            backend,
            world: 2,
            nccl: Some("/opt/libnccl.so.2".into()),
            ranks: Vec::new(),
            directory: PathBuf::new(),
        };
        assert!(heading(&machine(Backend::Host)).contains("host stand-in"));
        let real = heading(&machine(Backend::Nccl));
        assert!(real.contains("/opt/libnccl.so.2") && !real.contains("stand-in"), "{real}");
    }
}
