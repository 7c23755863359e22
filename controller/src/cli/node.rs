//! What runs on nodes: `agent`, `recover`, `probe`, and the processes that agents start.

use std::path::{Path, PathBuf};

use ringbreaker_agent::{
    self as agent,
    service::{AgentOptions, ServiceError},
};
use ringbreaker_proto::v1;
use ringbreaker_scenarios::event::Isolation;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    args::{AgentArgs, IsolationWord, Listing, StateDir},
    documents::{print, print_json},
    runtime,
};
use crate::{
    error::{Error, Expected},
    exit,
    run::{config::state_directory, header},
};

/// Serves a controller until it says so, or until SIGINT or SIGTERM (which the service watches).
pub(super) fn agent(args: AgentArgs) -> Result<u8, Error> {
    // Before the user namespace makes us look like root, whose place is another.
    let state = state_directory(args.state.state);
    agent::sys::userns::enter();
    let options = AgentOptions {
        controller: args.controller,
        state,
        lane: args.lane,
        nccl: args.nccl.nccl,
        isolation: args.isolation.map(isolation),
    };
    runtime()?.block_on(async {
        agent::service::run(options, CancellationToken::new()).await.map_err(refused)?;
        Ok(exit::PASS)
    })
}

fn refused(error: ServiceError) -> Expected {
    let source = Box::new(error);
    match *source {
        ServiceError::Address { .. } | ServiceError::NotLoopback { .. } => {
            Expected::AgentAddress { source }
        }
        _ => Expected::Agent { source },
    }
}

fn isolation(word: IsolationWord) -> Isolation {
    match word {
        IsolationWord::Namespaces => Isolation::Namespaces,
        IsolationWord::UserNamespace => Isolation::UserNamespace,
        IsolationWord::Plain => Isolation::Plain,
    }
}

/// A rank; returns its exit code.
pub(super) fn rank(spec: &Path) -> u8 {
    code(agent::rank::main(spec))
}

/// The guard of an agent; returns its exit code.
pub(super) fn guard(journal: &Path) -> u8 {
    code(agent::guard::main(journal))
}

/// The process that takes memory in a rank's cgroup; returns its exit code.
pub(super) fn press_memory() -> u8 {
    code(agent::inject::memory::press())
}

/// The process that fills a rank's cgroup with page cache; returns its exit code.
pub(super) fn press_page_cache() -> u8 {
    code(agent::inject::memory::press_page_cache())
}

/// The process that holds GPU memory; returns its exit code.
pub(super) fn hold_gpu_memory() -> u8 {
    code(agent::inject::memory::hold_gpu())
}

/// The process that looks for GPUs; returns its exit code.
pub(super) fn probe_gpu(nccl: &[PathBuf]) -> u8 {
    code(agent::gpu::probe_main(nccl))
}

/// The process that waits until GPU memory is free; returns its exit code.
pub(super) fn await_gpu_memory(wanted: &[String]) -> u8 {
    code(agent::gpu::await_memory_main(wanted))
}

fn code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(exit::INTERNAL)
}

/// Undoes what dead agents left behind.
pub(super) fn recover(args: StateDir) -> Result<u8, Error> {
    let state = state_directory(args.state);
    let items = agent::recover::recover(&state).map_err(|source| Expected::Environment {
        what: format!("recovering from {}", state.display()),
        source: Box::new(source),
    })?;
    for item in &items {
        print(&item.to_string());
    }
    match items.iter().filter(|item| item.result.is_err()).count() {
        0 if items.is_empty() => print(&format!("nothing to undo in {}", state.display())),
        0 => {}
        _ => return Ok(exit::NOT_HEALED),
    }
    Ok(exit::PASS)
}

/// What this machine is and which faults it can carry, as an agent would find it.
pub(super) fn probe(nccl: &[PathBuf], format: Listing) -> Result<u8, Error> {
    agent::sys::userns::enter();
    let probe = agent::probe::probe(nccl);
    match format {
        Listing::Text => print(&header::probe_text(&probe)),
        Listing::Json => print_json(&probe_json(&probe)),
    }
    Ok(exit::PASS)
}

fn probe_json(probe: &v1::NodeProbe) -> serde_json::Value {
    let gpus = probe.gpus.iter().map(|gpu| {
        json!({ "index": gpu.index, "name": gpu.name, "uuid": gpu.uuid, "driver": gpu.driver,
                "memory_bytes": gpu.memory_bytes, "free_bytes": gpu.free_bytes })
    });
    let nccl = probe.nccl.iter().map(|library| {
        json!({ "path": library.path, "version": library.version,
                "optional_symbols": library.optional_symbols })
    });
    let faults = probe.faults.iter().map(
        |fault| json!({ "kind": fault.kind, "possible": fault.possible, "reason": fault.reason }),
    );
    json!({
        "hostname": probe.hostname,
        "kernel": probe.kernel,
        "cpus": probe.cpus,
        "memory_bytes": probe.memory_bytes,
        "shm_bytes": probe.shm_bytes,
        "isolation": probe.isolation,
        "cgroups": probe.cgroups,
        "gpus": gpus.collect::<Vec<_>>(),
        "nccl": nccl.collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
    })
}
