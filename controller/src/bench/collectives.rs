//! Time and bandwidth of collectives over a sweep of sizes, in the columns of nccl-tests.

use clap::Args;
use ringbreaker_agent::bench::{
    Machine,
    collectives::{Row, Sweep, sweep},
};
use ringbreaker_scenarios::{
    units::Bytes,
    words::{Collective, Dtype, UnknownWord},
};
use serde_json::{Value, json};

use super::{failed, machine, machine::MachineArgs};
use crate::{
    cli::{
        args::Listing,
        documents::{print, print_json},
    },
    error::{Error, Expected},
    exit,
};

/// `bench` without a subcommand.
#[derive(Debug, Args)]
pub(super) struct CollectivesArgs {
    /// The operation, such as `all_gather`; `all` is each in turn
    #[arg(long, value_name = "OPERATION", default_value = "all_reduce", value_parser = operations)]
    collective: Operations,
    #[command(flatten)]
    machine: MachineArgs,
    /// Element type: `f32`, `f16`, `bf16` or `i32`
    #[arg(long, default_value = "f32")]
    dtype: Dtype,
    /// Smallest size
    #[arg(long, value_name = "SIZE", default_value = "1 KiB")]
    from: Bytes,
    /// Largest size
    #[arg(long, value_name = "SIZE", default_value = "16 MiB")]
    to: Bytes,
    /// From one size to the next
    #[arg(long, value_name = "FACTOR", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1024))]
    step: u64,
    /// Counted operations a size
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    iterations: u32,
    /// Uncounted operations a size, before the counted ones
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    warmup: u32,
    /// Do not compare results with what they must be
    #[arg(long)]
    no_check: bool,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// One operation, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operations(Vec<Collective>);

fn operations(text: &str) -> Result<Operations, UnknownWord> {
    match text {
        "all" => Ok(Operations(Collective::ALL.to_vec())),
        one => one.parse().map(|one| Operations(vec![one])),
    }
}

/// Measures and prints; wrong results are the exit code of a failed verdict.
pub(super) fn main(args: &CollectivesArgs) -> Result<u8, Error> {
    let sizes = sizes(args.from, args.to, args.step)?;
    let (machine, _scratch) = args.machine.machine()?;
    let (mut records, mut wrong) = (Vec::new(), 0);
    for collective in &args.collective.0 {
        let plan = Sweep {
            collective: *collective,
            dtype: args.dtype,
            sizes: sizes.clone(),
            iterations: args.iterations,
            warmup: args.warmup,
            check: !args.no_check,
        };
        let rows = sweep(&machine, &plan).map_err(failed)?;
        wrong += rows.iter().filter_map(|row| row.wrong).sum::<u64>();
        match args.format {
            Listing::Text => print(&table(&machine, &plan, &rows)),
            Listing::Json => records.push(record(&machine, &plan, &rows)),
        }
    }
    if args.format == Listing::Json {
        print_json(&json!(records));
    }
    Ok(if wrong == 0 { exit::PASS } else { exit::FAIL })
}

fn sizes(from: Bytes, to: Bytes, step: u64) -> Result<Vec<Bytes>, Error> {
    if from.0 == 0 || to < from {
        return Err(Expected::Argument {
            given: format!("{from} to {to}"),
            what: "range of sizes",
            help: "write --from '1 KiB' --to '16 MiB'".to_owned(),
        }
        .into());
    }
    let next = |size: &Bytes| size.0.checked_mul(step).map(Bytes).filter(|size| *size <= to);
    Ok(std::iter::successors(Some(from), next).collect())
}

/// The reduction of an operation, and its root, as nccl-tests writes them.
fn redop_and_root(collective: Collective) -> (&'static str, i32) {
    match collective {
        Collective::AllReduce | Collective::ReduceScatter => ("sum", -1),
        Collective::Reduce => ("sum", 0),
        Collective::Broadcast => ("none", 0),
        Collective::AllGather | Collective::AllToAll | Collective::SendRecv => ("none", -1),
    }
}

fn table(machine: &Machine, plan: &Sweep, rows: &[Row]) -> String {
    let mut text = machine::heading(machine);
    let checks = if plan.check { "every result checked" } else { "results not checked" };
    text.push_str(&format!(
        "# {}, {} iterations and {} warm-ups a size, {checks}\n\
         # time: median, from the last rank's call to the last rank's end\n",
        plan.collective, plan.iterations, plan.warmup
    ));
    text.push_str(
        "#       size         count    type   redop    root       time    algbw    busbw   #wrong\n\
         #        (B)    (elements)                               (us)   (GB/s)   (GB/s)\n",
    );
    let (redop, root) = redop_and_root(plan.collective);
    for row in rows {
        let wrong = row.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
        let time = row.time.as_secs_f64() * 1e6;
        text.push_str(&format!(
            "{:>12}  {:>12}  {:>6}  {redop:>6}  {root:>6}  {time:>9.1}  {:>7.2}  {:>7.2}  {wrong:>7}\n",
            row.bytes.0, row.count, plan.dtype, row.algbw, row.busbw
        ));
    }
    text.push_str(&format!("# average bus bandwidth: {:.3} GB/s\n", average(rows)));
    text
}

fn average(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.busbw).sum::<f64>() / rows.len().max(1) as f64
}

fn record(machine: &Machine, plan: &Sweep, rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({ "bytes": row.bytes.0, "count": row.count, "time_ns": row.time.0,
                "algbw_gb_s": row.algbw, "busbw_gb_s": row.busbw, "wrong": row.wrong })
    };
    let (redop, root) = redop_and_root(plan.collective);
    json!({
        "backend": machine.backend, "ranks": machine.world, "collective": plan.collective,
        "dtype": plan.dtype, "redop": redop, "root": root,
        "rows": rows.iter().map(row).collect::<Vec<_>>(), "average_busbw_gb_s": average(rows),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ringbreaker_scenarios::{units::Nanos, words::Backend};

    use super::*;

    #[test]
    fn sizes_grow_by_the_step_up_to_the_largest() {
        let list = sizes(Bytes(1 << 10), Bytes(20 << 10), 4).unwrap();
        assert_eq!(list, [Bytes(1 << 10), Bytes(4 << 10), Bytes(16 << 10)]);
        assert!(sizes(Bytes(4), Bytes(2), 2).is_err());
    }

    #[test]
    fn all_is_every_operation_and_a_wrong_word_names_the_right_ones() {
        assert_eq!(operations("all").unwrap().0.len(), 7);
        assert_eq!(operations("broadcast").unwrap(), Operations(vec![Collective::Broadcast]));
        assert!(operations("allreduce").unwrap_err().to_string().contains("all_reduce"));
    }

    #[test]
    fn the_table_has_the_columns_of_nccl_tests_and_the_average() {
        let machine = Machine {
            backend: Backend::Host,
            world: 4,
            nccl: None,
            ranks: Vec::new(),
            directory: PathBuf::new(),
        };
        let plan = Sweep {
            collective: Collective::Reduce,
            dtype: Dtype::F32,
            sizes: Vec::new(),
            iterations: 20,
            warmup: 5,
            check: true,
        };
        let row = |busbw, wrong| Row {
            bytes: Bytes(1024),
            count: 256,
            time: Nanos(12_340),
            algbw: 1.5,
            busbw,
            wrong,
        };
        let text = table(&machine, &plan, &[row(1.0, Some(3)), row(2.0, None)]);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        let names =
            ["#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"];
        assert!(lines.contains(&names.to_vec()), "{text}");
        let measured = ["1024", "256", "f32", "sum", "0", "12.3", "1.50", "1.00", "3"];
        assert!(lines.contains(&measured.to_vec()), "{text}");
        assert!(lines.iter().any(|line| line.last() == Some(&"N/A")), "{text}");
        assert!(text.contains("average bus bandwidth: 1.500 GB/s"), "{text}");
    }
}
