//! What lanes save: cases that mostly wait, side by side.

use clap::Args;
use ringbreaker_reports::history::CaseHistory;
use ringbreaker_scenarios::{event::What, units::Nanos, words::Detector};
use serde_json::json;

use super::{
    failed, show,
    whole_run::{WholeRun, carry_out, ranks_lived},
};
use crate::{cli::args::Listing, error::Error, exit};

/// Eight cases should take no longer on two cores.
const AIM: Nanos = Nanos::from_secs(8);
/// How long each case waits for its timeout.
const WAIT: Nanos = Nanos::from_secs(5);
const SCENARIO: &str = r#"
summary = "a stopped rank is waited for"
backend = "host"
[cluster]
nodes = 2
ranks_per_node = 1
[workload]
collective = "all_reduce"
bytes = "64 KiB"
iterations = 1000
interval = "5ms"
[settings]
NCCL_TIMEOUT = "5s"
error_handling = "skip-cleanup"
[[fault]]
when = { iteration = 5 }
target = { rank = 1 }
inject.stop = {}
"#;

/// `bench lanes`.
#[derive(Debug, Args)]
pub(super) struct LanesArgs {
    /// Number of lanes, and of cases
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    lanes: u32,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// Measures and prints.
pub(super) fn main(args: &LanesArgs) -> Result<u8, Error> {
    let WholeRun { history, wall } = carry_out(SCENARIO, args.lanes, args.lanes)?;
    if let Some(case) = history.cases.iter().find(|case| !waited(case)) {
        return Err(failed(format!("case {} did not wait for its timeout", case.plan.index)));
    }
    let cases = history.cases.len();
    let lives: f64 = history.cases.iter().map(|case| life(case).as_secs_f64()).sum();
    let ratio = lives / wall.as_secs_f64();
    show(
        args.format,
        &format!(
            "{cases} cases that each wait {WAIT} for a timeout, on {} lanes: {wall} from the start \
             of the program to its end (aim: 8 cases under {AIM})\n\
             their ranks lived {lives:.1} s in all: {ratio:.1} times the wall time",
            args.lanes
        ),
        &json!({ "cases": cases, "lanes": args.lanes, "wall_ns": wall.0, "ranks_lived_s": lives,
                 "ratio": ratio, "aim_ns": AIM.0 }),
    );
    Ok(exit::PASS)
}

/// Whether the watchdog noticed, no earlier than it may.
fn waited(case: &CaseHistory) -> bool {
    let timed_out =
        |what: &What| matches!(what, What::Detected(d) if d.detector == Detector::RankWatchdog);
    case.events.iter().any(|event| timed_out(&event.what)) && life(case) >= WAIT
}

fn life(case: &CaseHistory) -> Nanos {
    ranks_lived(case).map_or(Nanos::ZERO, |(began, last_exit)| last_exit.since(began))
}
