//! What the harness adds to a case: clean cases one after another on one lane, measured by the
//! history that they leave.

use clap::Args;
use ringbreaker_reports::history::CaseHistory;
use ringbreaker_scenarios::{
    event::{EXIT_FINISHED, ExitStatus, What},
    units::Nanos,
};
use serde_json::{Value, json};

use super::{
    failed, millis, quantile, show,
    whole_run::{carry_out, ended, ranks_lived},
};
use crate::{cli::args::Listing, error::Error, exit};

/// The median should be no more.
const AIM: Nanos = Nanos::from_millis(100);
const SCENARIO: &str = r#"
summary = "nothing goes wrong"
backend = "host"
clean = true
[cluster]
nodes = 2
ranks_per_node = 2
[workload]
collective = "all_reduce"
bytes = "64 KiB"
iterations = 20
"#;

/// `bench harness`.
#[derive(Debug, Args)]
pub(super) struct HarnessArgs {
    /// Number of cases
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=1000))]
    cases: u32,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// Measures and prints.
pub(super) fn main(args: &HarnessArgs) -> Result<u8, Error> {
    let run = carry_out(SCENARIO, args.cases, 1)?;
    let mut cases = run.history.cases;
    if let Some(case) = cases.iter().find(|case| !finished(case)) {
        return Err(failed(format!("case {} did not finish its work", case.plan.index)));
    }
    cases.sort_by_key(ended);
    let costs: Vec<Cost> =
        cases.windows(2).filter_map(|pair| Cost::between(&pair[0], &pair[1])).collect();
    show(args.format, &text(&costs), &record(&costs));
    Ok(exit::PASS)
}

/// Every rank left by itself with its work done.
fn finished(case: &CaseHistory) -> bool {
    let done = |what: &What| {
        matches!(
            what,
            What::RankExited { status: ExitStatus::Code(EXIT_FINISHED), by_harness: false }
        )
    };
    case.events.iter().filter(|event| done(&event.what)).count() == case.plan.world() as usize
}

/// What one case cost beyond the life of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    /// From the end of the case before to the order to begin: store, nodes, start of the ranks.
    before: Nanos,
    /// From the end of the last rank to the end of the case: clean-up, black boxes, audit.
    after: Nanos,
}

impl Cost {
    /// None: one of them never ran.
    fn between(previous: &CaseHistory, case: &CaseHistory) -> Option<Cost> {
        let (began, last_exit) = ranks_lived(case)?;
        let before = began.since(ended(previous)?);
        Some(Cost { before, after: ended(case)?.since(last_exit) })
    }

    fn whole(self) -> Nanos {
        self.before + self.after
    }
}

fn at(costs: &[Cost], of: impl Fn(Cost) -> Nanos, percent: usize) -> Nanos {
    quantile(costs.iter().copied().map(of).collect(), percent)
}

fn text(costs: &[Cost]) -> String {
    let line = |name: &str, of: fn(Cost) -> Nanos| {
        let (p50, p90) = (millis(at(costs, of, 50)), millis(at(costs, of, 90)));
        format!("{name:<64}  {p50:>8.1}  {p90:>8.1}\n")
    };
    [
        format!("# {} clean cases of 4 ranks on the host stand-in, one lane\n", costs.len()),
        format!("# {:<62}  median ms    p90 ms\n", "part of a case"),
        line("before: store, nodes, start of the rank processes", |cost| cost.before),
        line("after: clean-up, black boxes, audit", |cost| cost.after),
        line(&format!("both: cost of a case (aim: median {AIM})"), Cost::whole),
        "# not counted: from the order to begin to the end of the last rank\n".to_owned(),
    ]
    .concat()
}

fn record(costs: &[Cost]) -> Value {
    let both = |of: fn(Cost) -> Nanos| json!({ "median_ns": at(costs, of, 50).0, "p90_ns": at(costs, of, 90).0 });
    json!({
        "cases": costs.len(), "aim_ns": AIM.0, "cost": both(Cost::whole),
        "before": both(|cost| cost.before), "after": both(|cost| cost.after),
    })
}

#[cfg(test)]
mod tests {
    use ringbreaker_scenarios::event::{EndReason, Event};

    use super::*;
    use crate::bench::thousand;

    fn case(began: u64, exits: [u64; 2], ended: u64) -> CaseHistory {
        let event = |ms, what| Event { at: Nanos::from_millis(ms), rank: None, what };
        let exited =
            |ms| event(ms, What::RankExited { status: ExitStatus::Code(0), by_harness: false });
        CaseHistory {
            plan: thousand::plan(&thousand::sample()).unwrap().remove(0),
            attempt: 1,
            events: vec![
                event(began, What::Began),
                exited(exits[0]),
                exited(exits[1]),
                event(ended, What::Ended { because: EndReason::RanksGone }),
            ],
        }
    }

    #[test]
    fn the_cost_of_a_case_is_its_time_without_the_life_of_its_ranks() {
        let (first, second) = (case(10, [90, 95], 100), case(130, [400, 380], 425));
        let cost = Cost::between(&first, &second).unwrap();
        assert_eq!(cost.before, Nanos::from_millis(30));
        assert_eq!(cost.after, Nanos::from_millis(25));
        assert_eq!(cost.whole(), Nanos::from_millis(55));
        let text = text(&[cost]);
        assert!(text.lines().any(|l| l.starts_with("both") && l.contains("55.0")), "{text}");
        assert_eq!(record(&[cost])["cost"]["median_ns"], 55_000_000);
    }

    #[test]
    fn a_case_that_never_began_costs_nothing_that_could_be_told() {
        let (first, mut second) = (case(10, [90, 95], 100), case(130, [400, 380], 425));
        second.events.remove(0);
        assert_eq!(Cost::between(&first, &second), None);
    }

    #[test]
    fn a_case_with_too_few_exits_did_not_finish() {
        // Four ranks, two exits.
        assert!(!finished(&case(10, [90, 95], 100)));
    }
}
