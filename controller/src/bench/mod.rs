//! `ringbreaker bench`: every figure that docs/benchmarks.md speaks of, measured here and now.
//!
//! One file a benchmark. Each measures, makes its figures a text or JSON, and names what it was
//! measured against in the same run. Called by the command line alone.
//!
//! - [`collectives`]: time and bandwidth by size; [`recorder`]: what recording costs. Both on a
//!   [`machine`] without agents;
//! - [`fabric`]: the network between virtual nodes against a veth pair;
//! - [`harness`] and [`lanes`]: what runs cost and what lanes save, from a [`whole_run`] of this
//!   executable;
//! - [`plan`] and [`documents`]: a [`thousand`] cases.

mod collectives;
mod documents;
mod fabric;
mod harness;
mod lanes;
mod machine;
mod plan;
mod recorder;
mod thousand;
mod whole_run;

use clap::{Args, Subcommand};
use ringbreaker_scenarios::units::Nanos;

use crate::{
    cli::{
        args::Listing,
        documents::{print, print_json},
    },
    error::{Error, Expected},
};

/// `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Option<Benchmark>,
    #[command(flatten)]
    sweep: collectives::CollectivesArgs,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What the black box and the checks cost
    Recorder(recorder::RecorderArgs),
    /// Throughput, round trip and delay of the fabric, against a veth pair
    Fabric(fabric::FabricArgs),
    /// What a case costs beyond the time that its ranks need
    Harness(harness::HarnessArgs),
    /// How long cases that mostly wait take side by side
    Lanes(lanes::LanesArgs),
    /// How long it takes to plan 1,000 cases
    Plan(plan::PlanArgs),
    /// How long it takes to store, judge and report 1,000 cases
    Documents(documents::DocumentsArgs),
}

/// Measures, and prints the figures; returns the exit code.
pub(crate) fn main(args: &BenchArgs) -> Result<u8, Error> {
    match &args.what {
        None => collectives::main(&args.sweep),
        Some(Benchmark::Recorder(args)) => recorder::main(args),
        Some(Benchmark::Fabric(args)) => fabric::main(args),
        Some(Benchmark::Harness(args)) => harness::main(args),
        Some(Benchmark::Lanes(args)) => lanes::main(args),
        Some(Benchmark::Plan(args)) => plan::main(args),
        Some(Benchmark::Documents(args)) => documents::main(args),
    }
}

/// Prints figures in the form that was asked for.
fn show(format: Listing, text: &str, json: &serde_json::Value) {
    match format {
        Listing::Text => print(text),
        Listing::Json => print_json(json),
    }
}

/// A benchmark that gave no figures, because of the machine it ran on.
fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Expected::Environment { what: "the benchmark".to_owned(), source: source.into() }.into()
}

/// The measured value that this share of all is not above (nearest rank); nothing measured is zero.
fn quantile(mut measured: Vec<Nanos>, percent: usize) -> Nanos {
    measured.sort_unstable();
    let rank = (measured.len() * percent).div_ceil(100).max(1);
    measured.get(rank - 1).copied().unwrap_or_default()
}

/// Whole milliseconds are too coarse for a figure and nanoseconds too long to read.
fn millis(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let measured: Vec<Nanos> = (1..=50).rev().map(Nanos).collect();
        assert_eq!(quantile(measured.clone(), 50), Nanos(25));
        assert_eq!(quantile(measured, 90), Nanos(45));
        assert_eq!(quantile(vec![Nanos(7)], 90), Nanos(7));
        assert_eq!(quantile(Vec::new(), 50), Nanos::ZERO);
    }
}
