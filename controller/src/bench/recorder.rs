//! What recording costs: the black box an operation, and the checks in bus bandwidth.

use clap::Args;
use ringbreaker_agent::bench::{
    Machine,
    recorder::{RecorderCost, measure},
};
use ringbreaker_scenarios::units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::{failed, machine, machine::MachineArgs, show};
use crate::{cli::args::Listing, error::Error, exit};

/// The black box should take no more an operation.
const AIM: Nanos = Nanos(2_000);

/// `bench recorder`.
#[derive(Debug, Args)]
pub(super) struct RecorderArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Sizes at which busbw is compared (repeatable)
    #[arg(long, value_name = "SIZE", default_values = ["16 MiB", "64 MiB"])]
    size: Vec<Bytes>,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// Measures and prints.
pub(super) fn main(args: &RecorderArgs) -> Result<u8, Error> {
    let (machine, _scratch) = args.machine.machine()?;
    let cost = measure(&machine, &args.size).map_err(failed)?;
    show(args.format, &text(&machine, &cost), &record(&machine, &cost));
    Ok(exit::PASS)
}

fn text(machine: &Machine, cost: &RecorderCost) -> String {
    let mut text = machine::heading(machine);
    text.push_str(&format!(
        "black box: {} an operation, clock readings included (aim: under {AIM})\n",
        cost.per_operation
    ));
    for (bytes, ratio) in &cost.bandwidth {
        text.push_str(&format!(
            "all_reduce of {bytes} with checks: {:.1} % of the busbw without (aim: 99 % or more)\n",
            ratio * 100.0
        ));
    }
    text
}

fn record(machine: &Machine, cost: &RecorderCost) -> Value {
    let row = |(bytes, ratio): &(Bytes, f64)| json!({ "bytes": bytes.0, "busbw_ratio": ratio });
    json!({
        "backend": machine.backend,
        "ranks": machine.world,
        "per_operation_ns": cost.per_operation.0,
        "with_checks": cost.bandwidth.iter().map(row).collect::<Vec<_>>(),
    })
}
