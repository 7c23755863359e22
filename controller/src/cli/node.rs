//! What runs on nodes: `agent`, `recover`, `probe`, and the processes that agents start.

use std::path::{Path, PathBuf};

use ringbreaker_agent as agent;
use serde_json::json;

use super::{
    args::{AgentArgs, IsolationWord, Listing, StateDir},
    catalogue::print_json,
    documents::print,
    runtime,
};
use crate::{
    error::{Error, Expected},
    exit,
    run::{config::state_directory, header},
};

/// Serves a controller until it says so, or until SIGINT or SIGTERM.
pub(super) fn agent(args: AgentArgs) -> Result<u8, Error> {
    let _ = args;
    Ok(exit::INTERNAL)
}

/// A rank; returns its exit code.
pub(super) fn rank(spec: &Path) -> u8 {
    let _ = spec;
    exit::INTERNAL
}

/// The guard of an agent; returns its exit code.
pub(super) fn guard(journal: &Path) -> u8 {
    code(agent::guard::main(journal))
}

/// The process that takes memory in a rank's cgroup; returns its exit code.
pub(super) fn press_memory() -> u8 {
    code(agent::inject::memory::press())
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

/// What this machine is and which faults it can carry.
pub(super) fn probe(nccl: &[PathBuf], format: Listing) -> Result<u8, Error> {
    let _ = (nccl, format, json!(1), print_json, header::probe_text);
    Ok(exit::INTERNAL)
}
