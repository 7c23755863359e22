//! Stored runs, offline: `runs`, `report`.

use std::path::Path;

use ringbreaker_reports::{
    report::RunReport,
    store::{Store, StoreError},
};
use serde_json::json;

use super::{
    args::{Document, Listing, ReportArgs},
    documents::{self, print_json},
};
use crate::{
    error::{Error, Expected, Internal},
    exit,
};

/// The stored runs, latest first.
pub(super) fn list(dir: &Path, format: Listing) -> Result<u8, Error> {
    let store = open(dir)?;
    let runs = store.runs().map_err(|e| broken("list the runs", e))?;
    match format {
        Listing::Json => {
            let list: Vec<_> = runs
                .iter()
                .map(|run| {
                    json!({ "id": run.header.id, "scenario": run.header.scenario,
                            "backend": run.header.backend, "seed": run.header.seed,
                            "started": run.header.started, "ended": run.header.ended,
                            "planned": run.planned, "finished": run.finished })
                })
                .collect();
            print_json(&json!(list));
        }
        Listing::Text => {
            for run in &runs {
                let header = &run.header;
                let state = if run.finished == run.planned { "" } else { "  (can be resumed)" };
                documents::print(&format!(
                    "{}  {:<16}  {:<5}  {}/{} cases{state}",
                    header.id, header.scenario, header.backend, run.finished, run.planned,
                ));
            }
        }
    }
    Ok(exit::PASS)
}

/// A stored run as a document.
pub(super) fn report(args: ReportArgs) -> Result<u8, Error> {
    let dir = args.dir.dir;
    let store = open(&dir)?;
    let latest = store.latest().map_err(|e| broken("find the latest run", e))?;
    let run = args.run.or(latest).ok_or_else(|| Expected::NoRuns { dir: dir.clone() })?;
    let report = RunReport::from(store.load(&run).map_err(|e| broken("load a run", e))?);
    let text = match (args.format, &args.output) {
        (Document::Terminal, None) => documents::for_terminal(&report),
        (format, _) => documents::render(&report, format, false)?,
    };
    match args.output {
        None => documents::print(&text),
        Some(path) => std::fs::write(&path, text)
            .map_err(|source| Expected::Output { path: path.clone(), source })?,
    }
    Ok(exit::PASS)
}

/// Opens a store that is there; looking at runs makes no directory.
fn open(dir: &Path) -> Result<Store, Error> {
    if !dir.join(ringbreaker_reports::store::FILE_NAME).exists() {
        return Err(Expected::NoRuns { dir: dir.to_owned() }.into());
    }
    Store::open(dir).map_err(|e| Expected::Store { source: Box::new(e) }.into())
}

fn broken(doing: &'static str, error: StoreError) -> Error {
    match error {
        e @ StoreError::NoSuchRun { .. } => Expected::Store { source: Box::new(e) }.into(),
        e => Internal::Store { doing, source: Box::new(e) }.into(),
    }
}
