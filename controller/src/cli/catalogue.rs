//! Scenarios, without running them: `list`, `show`, `check`, `schema`.

use ringbreaker_scenarios::{
    library, plan,
    problem::{self, Problem},
    settings::{self, Versions},
    words::Backend,
};
use serde_json::json;

use super::{
    args::{Listing, ShowArgs},
    documents::{self, print, print_json, tell},
};
use crate::{
    error::Error,
    exit,
    run::config::{self, scenario_text},
};

/// The scenarios that ship.
pub(super) fn list(format: Listing) -> Result<u8, Error> {
    let mut rows = Vec::new();
    for shipped in library::all() {
        let scenario = shipped.parse().map_err(|problems| config::invalid(&problems))?;
        let cases = plan::plan(&scenario, &plan::Options::default())
            .map_err(|problems| config::invalid(&problems))?;
        rows.push((shipped.name, scenario, cases.len()));
    }
    match format {
        Listing::Json => {
            let list: Vec<_> = rows
                .iter()
                .map(|(name, s, cases)| {
                    json!({ "name": name, "summary": s.summary, "cases": cases,
                            "backend": s.backend, "columns": s.columns() })
                })
                .collect();
            print_json(&json!(list));
        }
        Listing::Text => {
            let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
            let lines = rows
                .iter()
                .map(|(name, s, cases)| format!("{name:<width$}  {cases:>4} cases  {}", s.summary));
            print(&lines.collect::<Vec<_>>().join("\n"));
            tell("\n`ringbreaker show NAME` prints the cases, `ringbreaker run NAME` runs them");
        }
    }
    Ok(exit::PASS)
}

/// The cases of a scenario and its whole fault schedule.
pub(super) fn show(args: &ShowArgs) -> Result<u8, Error> {
    let scenario = config::scenario(&args.scenario, &args.plan)?;
    let options = config::options(&args.plan, Backend::Host);
    let cases = plan::plan(&scenario, &options).map_err(|problems| config::invalid(&problems))?;
    match args.format {
        Listing::Json => print_json(&json!({
            "scenario": scenario.file,
            "summary": scenario.summary,
            "seed": options.seed,
            "cases": cases,
        })),
        Listing::Text => {
            print(&format!("{}: {}, seed {}", scenario.name, scenario.summary, options.seed));
            print(&plan::describe(&cases));
        }
    }
    Ok(exit::PASS)
}

/// Every problem of every file.
pub(super) fn check(files: &[String], format: Listing) -> Result<u8, Error> {
    let mut code = exit::PASS;
    let mut results = Vec::new();
    for name in files {
        let checked = check_one(name);
        if let Err(error) = &checked {
            code = code.max(error.exit_code());
        }
        results.push((name, checked));
    }
    match format {
        Listing::Json => {
            let list: Vec<_> = results
                .iter()
                .map(|(name, checked)| match checked {
                    Ok(Right { cases, warnings, lost_timers }) => json!({
                        "file": name, "right": true, "cases": cases, "warnings": warnings, "lost_timers": lost_timers,
                    }),
                    Err(Unright::Problems(problems)) => {
                        json!({ "file": name, "right": false, "problems": problems })
                    }
                    Err(Unright::Unread(error)) => {
                        json!({ "file": name, "right": false, "error": error.to_string() })
                    }
                })
                .collect();
            print_json(&json!(list));
        }
        Listing::Text => {
            for (name, checked) in results {
                match checked {
                    Ok(Right { cases, warnings, lost_timers }) => {
                        tell_warnings(&warnings);
                        for lost in lost_timers {
                            tell(&format!("warning: {lost}"));
                        }
                        print(&format!("{name}: right, {cases} cases"));
                    }
                    Err(Unright::Problems(problems)) => {
                        tell(&config::invalid(&problems).report());
                    }
                    Err(Unright::Unread(error)) => tell(&error.report()),
                }
            }
        }
    }
    Ok(code)
}

/// Why a file is not right.
enum Unright {
    Problems(ringbreaker_scenarios::problem::Problems),
    Unread(Error),
}

impl Unright {
    fn exit_code(&self) -> u8 {
        match self {
            Unright::Problems(_) => exit::USAGE,
            Unright::Unread(error) => error.exit_code(),
        }
    }
}

/// A scenario that is right.
struct Right {
    cases: usize,
    /// What is odd about single settings, with their places.
    warnings: Vec<Problem>,
    /// Timers that were set and can never fire.
    lost_timers: Vec<String>,
}

fn tell_warnings(warnings: &[Problem]) {
    if !warnings.is_empty() {
        tell(problem::render_warnings(warnings, documents::color_on_stderr()).trim_end());
    }
}

fn check_one(name: &str) -> Result<Right, Unright> {
    let (file, text) = scenario_text(name).map_err(Unright::Unread)?;
    let scenario = ringbreaker_scenarios::scenario::Scenario::parse(&file, &text)
        .map_err(Unright::Problems)?;
    let cases = plan::plan(&scenario, &plan::Options::default()).map_err(Unright::Problems)?;
    let lost_timers = settings::lost_timers(&cases, Versions::default());
    Ok(Right { cases: cases.len(), warnings: scenario.warnings, lost_timers })
}

/// The JSON Schema of scenario files.
pub(super) fn schema() -> Result<u8, Error> {
    print_json(&ringbreaker_scenarios::schema::scenario_schema());
    Ok(exit::PASS)
}
