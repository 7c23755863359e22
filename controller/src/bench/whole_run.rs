//! A run of this executable with agents, ranks and store, measured by the history that it leaves.

use std::{fs, path::Path, process::Stdio, time::Instant};

use ringbreaker_reports::{
    history::{CaseHistory, RunHistory},
    store::{Store, StoreError},
};
use ringbreaker_scenarios::{
    event::{Event, What},
    units::Nanos,
};

use super::failed;
use crate::{
    error::{Error, Expected, Internal},
    exit,
};

/// What a run left.
pub(super) struct WholeRun {
    /// As the store has it.
    pub(super) history: RunHistory,
    /// From the start of the executable to its end.
    pub(super) wall: Nanos,
}

/// Runs a scenario in a directory that is removed afterwards.
pub(super) fn carry_out(scenario: &str, repeat: u32, lanes: u32) -> Result<WholeRun, Error> {
    let io = |doing| move |source| Internal::Io { doing, source };
    let place = tempfile::tempdir().map_err(io("make a temporary directory"))?;
    let file = place.path().join("bench.toml");
    fs::write(&file, scenario).map_err(io("write the benchmark's scenario"))?;
    let runs = place.path().join("runs");
    let program = std::env::current_exe().map_err(io("find the executable"))?;
    let mut command = tokio::process::Command::new(program);
    command.arg("run").arg(&file).arg("--quiet").arg("--dir").arg(&runs);
    command.args(["--repeat", &repeat.to_string(), "--lanes", &lanes.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let output = to_its_end(command).map_err(io("run the executable"))?;
    let wall = Nanos::from(began.elapsed());
    match output.status.code().map(u8::try_from) {
        // A verdict is no matter here, only that every case was carried out.
        Some(Ok(exit::PASS | exit::FAIL | exit::UNKNOWN)) => {}
        Some(Ok(exit::INTERRUPTED)) => return Err(Expected::InterruptedBench.into()),
        _ => return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
    let history = stored(&runs)
        .map_err(|source| Internal::Store { doing: "read a run", source: Box::new(source) })?;
    Ok(WholeRun { history, wall })
}

/// Ctrl-C reaches the run as well, which heals and ends; until then this process stays.
fn to_its_end(mut command: tokio::process::Command) -> std::io::Result<std::process::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let interrupted = tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        let output = command.spawn()?.wait_with_output().await;
        interrupted.abort();
        output
    })
}

fn stored(runs: &Path) -> Result<RunHistory, StoreError> {
    let store = Store::open(runs)?;
    let latest = store.latest()?.unwrap_or_default();
    store.load(&latest)
}

/// When a case was over.
pub(super) fn ended(case: &CaseHistory) -> Option<Nanos> {
    at(case, |what| matches!(what, What::Ended { .. })).max()
}

/// From the order to begin to the end of the last rank; none: a case that never began.
pub(super) fn ranks_lived(case: &CaseHistory) -> Option<(Nanos, Nanos)> {
    let began = at(case, |what| matches!(what, What::Began)).min()?;
    let last = at(case, |what| matches!(what, What::RankExited { .. })).max()?;
    Some((began, last))
}

fn at(case: &CaseHistory, wanted: impl Fn(&What) -> bool) -> impl Iterator<Item = Nanos> {
    case.events.iter().filter(move |event: &&Event| wanted(&event.what)).map(|event| event.at)
}
