//! Scenario files: what they may say, and a reader that finds every problem at once.
//!
//! The controller calls [`Scenario::parse`] with a file's name and text and hands what it gets to
//! [`crate::plan`]. Every problem names file, line, column, the text and what would be right; one
//! problem does not hide another. Nothing is read from disk here.
//!
//! One file a part of the format: `cluster`, `settings`, `fault` (with `inject`, `trigger`,
//! `target`), `expect`. `table` and `value` read TOML and know nothing of scenarios; `model` is
//! what comes out.

mod cluster;
mod expect;
mod fault;
mod inject;
mod model;
mod settings;
mod table;
mod target;
mod trigger;
mod value;

use std::path::Path;

use toml::de::DeTable;

pub use model::{CLEAN, Exception, Expect, FaultSpec, Limit, Scenario, Setting, TargetSpec};

use crate::problem::{Collector, Problems};
use cluster::Workload;
use table::Table;

impl Scenario {
    /// Reads a scenario. `name_or_path` is what problems name; without directory and `.toml` it is
    /// the scenario's name.
    ///
    /// # Errors
    ///
    /// Every problem of the file.
    pub fn parse(name_or_path: &str, text: &str) -> Result<Scenario, Problems> {
        let mut problems = Collector::new(name_or_path, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            problems.at(
                span,
                format!("this is not TOML: {}", error.message()),
                "TOML 1.1, as https://toml.io describes it",
            );
        }
        // What follows a syntax error may be read amiss: its own problems would be noise.
        let scenario = if errors.is_empty() {
            let root = Table::root(document.get_ref());
            top(root, name_or_path, text, &mut problems)
        } else {
            None
        };
        problems.finish(scenario)
    }
}

/// Reads the whole file. `None` only when there were problems.
fn top(mut t: Table<'_, '_>, file: &str, text: &str, c: &mut Collector<'_>) -> Option<Scenario> {
    let summary =
        t.required("summary", "summary = \"one sentence\"", c).and_then(|v| value::sentence(v, c));
    let description = t.optional("description").and_then(|v| value::string(v, c));
    let backend = t.optional("backend").and_then(|v| value::word(v, c));
    let repetitions = t.optional("repetitions").and_then(|v| value::whole(v, 1, 10_000, c));
    let clean = t.optional("clean").and_then(|v| value::flag(v, c));
    let case_cap = t
        .optional("case_cap")
        .and_then(|v| value::positive_duration(v, c).map(|cap| (cap, v.span())));

    let cluster = t
        .table("cluster", "[cluster] with nodes and ranks_per_node", c)
        .and_then(|t| cluster::cluster(t, c));
    let workload = t
        .table("workload", "[workload] with collective, dtype, bytes and iterations", c)
        .map_or_else(Workload::default, |t| cluster::workload(t, cluster.as_ref(), c));
    let settings = settings::settings(t.optional_table("settings", c), c);
    let per_rank = settings::per_rank(t.array_of_tables("per_rank", c), cluster.as_ref(), c);
    let context = fault::Context {
        cluster: cluster.as_ref(),
        iterations: workload.iterations,
        cap: case_cap.as_ref().map(|(cap, _)| *cap),
    };
    let faults = fault::faults(t.array_of_tables("fault", c), &context, c);
    let columns = fault::columns(&faults, clean == Some(true));
    let (expect, exceptions) =
        expect::expect(t.optional_table("expect", c), &columns, &settings, c);
    t.finish(c);

    settings::check_size(&settings, columns.len(), repetitions.unwrap_or(1), c);
    settings::check_against_cap(&settings, &per_rank, case_cap.as_ref(), c);
    settings::check_rendezvous(&settings, cluster.as_ref(), c);
    fault::check_abort_is_reached(&faults, &settings, &per_rank, c);
    Some(Scenario {
        name: name_of(file),
        file: file.to_owned(),
        text: text.to_owned(),
        summary: summary?,
        description,
        backend,
        repetitions: repetitions.unwrap_or(1),
        clean: clean.unwrap_or(false),
        case_cap: case_cap.map(|(cap, _)| cap),
        cluster: cluster?,
        workload: workload.plan?,
        warnings: settings::oddities(&settings, &per_rank, Collector::new(file, text)),
        settings: settings.into_settings(),
        per_rank: per_rank.into_values(),
        faults: faults.into_iter().map(|f| f.spec).collect(),
        expect,
        exceptions,
    })
}

/// The scenario's name: that of the file without directory and `.toml`.
fn name_of(file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(file).to_owned()
}
