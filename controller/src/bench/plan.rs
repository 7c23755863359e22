//! How long it takes to read a scenario and expand it to 1,000 cases.

use std::time::Instant;

use clap::Args;
use ringbreaker_scenarios::units::Nanos;
use serde_json::json;

use super::{millis, quantile, show, thousand};
use crate::{cli::args::Listing, error::Error, exit};

/// 1,000 cases should be planned within this.
const AIM: Nanos = Nanos::from_secs(1);

/// `bench plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// How often it is planned; the median counts
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// Measures and prints.
pub(super) fn main(args: &PlanArgs) -> Result<u8, Error> {
    let text = thousand::scenario();
    let mut took = Vec::new();
    let mut cases = 0;
    for _ in 0..args.rounds {
        let began = Instant::now();
        cases = thousand::plan(&text)?.len();
        took.push(Nanos::from(began.elapsed()));
    }
    let median = quantile(took, 50);
    show(
        args.format,
        &format!(
            "{cases} cases parsed and planned in {:.1} ms, median of {} (aim: under {AIM})",
            millis(median),
            args.rounds
        ),
        &json!({ "cases": cases, "rounds": args.rounds, "median_ns": median.0, "aim_ns": AIM.0 }),
    );
    Ok(exit::PASS)
}
