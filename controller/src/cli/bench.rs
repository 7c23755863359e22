//! Measurements without faults: `bench`.

use std::collections::BTreeMap;

use ringbreaker_agent::{
    bench::{
        BenchError, Machine,
        collectives::{self, Row, Sweep},
        recorder::{self, RecorderCost},
    },
    probe,
};
use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    units::{Bytes, Nanos},
    words::Backend,
};
use serde_json::json;

use super::{
    args::{BenchArgs, Listing},
    catalogue::print_json,
    documents::{print, tell},
};
use crate::{
    error::{Error, Expected, Internal},
    exit,
    run::preflight,
};

/// Sizes at which the cost of recording is looked at.
const RECORDER_SIZES: [Bytes; 2] = [Bytes(16 << 20), Bytes(64 << 20)];

/// Prints time and bandwidth by size, or what recording costs.
pub(super) fn bench(args: &BenchArgs) -> Result<u8, Error> {
    let probe = probe::probe(&args.nccl.nccl);
    let wished = args.backend.unwrap_or(Backend::Nccl).word();
    let choice = preflight::backend(args.backend, None, &probe)
        .map_err(|reason| Expected::NoBackend { backend: wished, reason })?;
    tell(&format!("backend {} ({}), {} ranks", choice.backend, choice.why, args.ranks));
    let scratch = tempfile::tempdir()
        .map_err(|source| Internal::Io { doing: "make a temporary directory", source })?;
    let machine = Machine {
        backend: choice.backend,
        world: args.ranks,
        nccl: args.nccl.nccl.first().cloned().or_else(|| found(&probe, choice.backend)),
        ranks: ranks(args.ranks, choice.backend, &probe),
        directory: scratch.path().to_owned(),
    };
    let failed = |source: BenchError| Expected::Environment {
        what: "the benchmark".to_owned(),
        source: Box::new(source),
    };
    if args.recorder {
        let cost = recorder::measure(&machine, &RECORDER_SIZES).map_err(failed)?;
        print_cost(&cost, args.format);
    } else {
        let sweep = Sweep {
            collective: args.collective,
            dtype: args.dtype,
            sizes: sizes(args.from, args.to, args.step)?,
            iterations: args.iterations,
            warmup: args.warmup,
            check: !args.no_check,
        };
        let rows = collectives::sweep(&machine, &sweep).map_err(failed)?;
        print_rows(&rows, args);
    }
    Ok(exit::PASS)
}

fn found(probe: &v1::NodeProbe, backend: Backend) -> Option<std::path::PathBuf> {
    let library = probe.nccl.first().filter(|_| backend == Backend::Nccl)?;
    Some(library.path.clone().into())
}

/// Ranks share GPUs where there are fewer of them; NCCL allows that between hosts alone, so each
/// then claims a host of its own.
fn ranks(
    world: u32,
    backend: Backend,
    probe: &v1::NodeProbe,
) -> Vec<(Option<u32>, BTreeMap<String, String>)> {
    let gpus = u32::try_from(probe.gpus.len()).unwrap_or(u32::MAX);
    if backend == Backend::Host || gpus == 0 {
        return Vec::new();
    }
    let setup = |rank: u32| {
        let host = ("NCCL_HOSTID".to_owned(), format!("ringbreaker-bench-{rank}"));
        (Some(rank % gpus), if world > gpus { BTreeMap::from([host]) } else { BTreeMap::new() })
    };
    (0..world).map(setup).collect()
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

fn print_rows(rows: &[Row], args: &BenchArgs) {
    if args.format == Listing::Json {
        let row = |row: &Row| {
            json!({ "bytes": row.bytes, "count": row.count, "time_ns": row.time,
                    "algbw_gb_s": row.algbw, "busbw_gb_s": row.busbw, "wrong": row.wrong })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let (collective, dtype) = (args.collective, args.dtype);
        print_json(
            &json!({ "collective": collective, "dtype": dtype, "ranks": args.ranks, "rows": rows }),
        );
        return;
    }
    print(&format!(
        "{:>12}  {:>12}  {:>5}  {:>12}  {:>14}  {:>14}  {:>6}",
        "size (B)", "count", "type", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"
    ));
    for row in rows {
        print(&format!(
            "{:>12}  {:>12}  {:>5}  {:>12.1}  {:>14.3}  {:>14.3}  {:>6}",
            row.bytes.0,
            row.count,
            args.dtype,
            row.time.0 as f64 / 1e3,
            row.algbw,
            row.busbw,
            row.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string()),
        ));
    }
}

fn print_cost(cost: &RecorderCost, format: Listing) {
    let Nanos(each) = cost.per_operation;
    if format == Listing::Json {
        let bandwidth: Vec<_> = cost
            .bandwidth
            .iter()
            .map(|(bytes, ratio)| json!({ "bytes": bytes, "busbw_with_checks": ratio }))
            .collect();
        print_json(&json!({ "per_operation_ns": each, "bandwidth": bandwidth }));
        return;
    }
    print(&format!("the black box takes {each} ns an operation"));
    for (bytes, ratio) in &cost.bandwidth {
        print(&format!("at {bytes} busbw with checks is {:.1} % of that without", ratio * 100.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_the_step_up_to_the_largest() {
        let list = sizes(Bytes(1 << 10), Bytes(20 << 10), 4).unwrap();
        assert_eq!(list, [Bytes(1 << 10), Bytes(4 << 10), Bytes(16 << 10)]);
        assert!(sizes(Bytes(4), Bytes(2), 2).is_err());
    }

    #[test]
    fn ranks_that_share_a_gpu_claim_hosts_of_their_own() {
        let mut probe = v1::NodeProbe::default();
        assert!(ranks(2, Backend::Host, &probe).is_empty());
        probe.gpus = vec![v1::Gpu::default()];
        let shared = ranks(2, Backend::Nccl, &probe);
        assert_eq!((shared[0].0, shared[1].0), (Some(0), Some(0)));
        assert_ne!(shared[0].1["NCCL_HOSTID"], shared[1].1["NCCL_HOSTID"]);
        probe.gpus.push(v1::Gpu::default());
        assert!(ranks(2, Backend::Nccl, &probe).iter().all(|(_, env)| env.is_empty()));
    }
}
