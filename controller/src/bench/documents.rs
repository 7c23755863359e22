//! How long it takes to store, load, judge and report 1,000 cases. Their histories are real: a few
//! cases are carried out first, and each of the thousand gets the events of the one in its column.

use std::{collections::BTreeMap, fs, time::Instant};

use clap::Args;
use ringbreaker_reports::{
    history::{CaseHistory, RunHistory},
    report::RunReport,
    store::{Store, StoreError},
};
use ringbreaker_scenarios::{case::CasePlan, event::Event, units::Nanos};
use serde_json::{Value, json};

use super::{failed, millis, show, thousand, whole_run::carry_out};
use crate::{
    cli::{
        args::{Document, Listing},
        documents::render,
    },
    error::{Error, Internal},
    exit,
};

/// The page should be read from the store and written within this.
const AIM: Nanos = Nanos::from_secs(2);
/// Side by side, for the sample.
const LANES: u32 = 5;
const DOCUMENTS: [(Document, &str); 6] = [
    (Document::Html, "html"),
    (Document::Json, "json"),
    (Document::History, "history"),
    (Document::Junit, "junit"),
    (Document::Markdown, "markdown"),
    (Document::Terminal, "terminal"),
];

/// `bench documents`.
#[derive(Debug, Args)]
pub(super) struct DocumentsArgs {
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// One measured step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    name: &'static str,
    took: Nanos,
    /// Bytes written, where it writes a document.
    bytes: usize,
}

/// Measures and prints.
pub(super) fn main(args: &DocumentsArgs) -> Result<u8, Error> {
    let sample = carry_out(&thousand::sample(), 1, LANES)?.history;
    let history = multiplied(&sample, thousand::plan(&thousand::scenario())?)?;
    let steps = measure(&history)?;
    show(args.format, &text(history.cases.len(), &steps), &record(history.cases.len(), &steps));
    Ok(exit::PASS)
}

/// Every planned case with the events of the sample in its column.
fn multiplied(sample: &RunHistory, plans: Vec<CasePlan>) -> Result<RunHistory, Error> {
    let events: BTreeMap<&str, &Vec<Event>> =
        sample.cases.iter().map(|case| (case.plan.column.as_str(), &case.events)).collect();
    let case = |plan: CasePlan| {
        let events = events.get(plan.column.as_str()).copied().cloned();
        let events = events.ok_or_else(|| failed(format!("no case of {} was run", plan.column)))?;
        Ok(CaseHistory { plan, attempt: 1, events })
    };
    let cases = plans.into_iter().map(case).collect::<Result<_, Error>>()?;
    Ok(RunHistory { header: sample.header.clone(), cases, pending: Vec::new() })
}

fn measure(history: &RunHistory) -> Result<Vec<Step>, Error> {
    let io = |doing| move |source| Internal::Io { doing, source };
    let place = tempfile::tempdir().map_err(io("make a temporary directory"))?;
    let refused = |source| Internal::Store { doing: "work", source: Box::new(source) };
    let run = &history.header.id;
    let mut steps = Vec::new();
    let began = Instant::now();
    store(history, place.path()).map_err(refused)?;
    steps.push(Step::since(began, "store, one transaction a case", 0));
    let began = Instant::now();
    let loaded = Store::open(place.path()).and_then(|store| store.load(run)).map_err(refused)?;
    steps.push(Step::since(began, "load", 0));
    let began = Instant::now();
    let report = RunReport::from(loaded);
    steps.push(Step::since(began, "judge", 0));
    for (format, name) in DOCUMENTS {
        let began = Instant::now();
        let document = render(&report, format, true)?;
        fs::write(place.path().join(name), &document).map_err(io("write a document"))?;
        steps.push(Step::since(began, name, document.len()));
    }
    Ok(steps)
}

fn store(history: &RunHistory, place: &std::path::Path) -> Result<(), StoreError> {
    let plans: Vec<CasePlan> = history.cases.iter().map(|case| case.plan.clone()).collect();
    let mut store = Store::open(place)?;
    store.begin_run(&history.header, &plans)?;
    history.cases.iter().try_for_each(|case| store.append_case(&history.header.id, case))
}

impl Step {
    fn since(began: Instant, name: &'static str, bytes: usize) -> Step {
        Step { name, took: began.elapsed().into(), bytes }
    }
}

/// What `ringbreaker report --format html` does: load, judge, write the page.
fn page(steps: &[Step]) -> Nanos {
    let parts = steps.iter().filter(|step| ["load", "judge", "html"].contains(&step.name));
    parts.fold(Nanos::ZERO, |sum, step| sum + step.took)
}

fn text(cases: usize, steps: &[Step]) -> String {
    let mut text = format!("# {:<30}{:>10}{:>12}\n", format!("{cases} cases"), "ms", "KiB");
    for step in steps {
        let size = if step.bytes == 0 { "-".to_owned() } else { (step.bytes >> 10).to_string() };
        text.push_str(&format!("{:<32}{:>10.1}{size:>12}\n", step.name, millis(step.took)));
    }
    text.push_str(&format!(
        "load, judge and html together: {:.1} ms (aim: under {AIM})\n",
        millis(page(steps))
    ));
    text
}

fn record(cases: usize, steps: &[Step]) -> Value {
    let step =
        |step: &Step| json!({ "step": step.name, "took_ns": step.took.0, "bytes": step.bytes });
    json!({
        "cases": cases, "aim_ns": AIM.0, "page_from_store_ns": page(steps).0,
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_from_the_store_to_the_file() {
        let step = |name, ms, bytes| Step { name, took: Nanos::from_millis(ms), bytes };
        let steps = [
            step("store, one transaction a case", 1_000, 0),
            step("load", 300, 0),
            step("judge", 40, 0),
            step("html", 500, 3 << 20),
            step("json", 7_000, 1 << 20),
        ];
        assert_eq!(page(&steps), Nanos::from_millis(840));
        let text = text(1_000, &steps);
        assert!(text.contains("840.0 ms") && text.contains("3072"), "{text}");
        assert_eq!(record(1_000, &steps)["steps"][3]["bytes"], 3 << 20);
    }
}
