//! Time and bandwidth of the collectives by size, in the columns of nccl-tests.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::WorkloadPlan,
    event::OpSummary,
    units::{Bytes, Nanos},
    words::{Collective, Dtype},
};

use super::job::{self, BenchError, Machine};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The operation.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Sizes, as nccl-tests counts them.
    pub sizes: Vec<Bytes>,
    /// Counted operations a size.
    pub iterations: u32,
    /// Uncounted operations a size.
    pub warmup: u32,
    /// Compare every result.
    pub check: bool,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Size.
    pub bytes: Bytes,
    /// Elements of that size.
    pub count: u64,
    /// Median over the operations of the slowest rank's time.
    pub time: Nanos,
    /// Bytes a second, in GB/s.
    pub algbw: f64,
    /// What the busiest link carries if the algorithm is optimal, in GB/s.
    pub busbw: f64,
    /// Operations whose result was wrong; none: not compared.
    pub wrong: Option<u64>,
}

/// What one byte of algorithm bandwidth means on the busiest link: nccl-tests' factor for n ranks.
pub fn bus_factor(collective: Collective, world: u32) -> f64 {
    let n = f64::from(world);
    match collective {
        Collective::AllReduce => 2.0 * (n - 1.0) / n,
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => (n - 1.0) / n,
        Collective::Broadcast | Collective::Reduce | Collective::SendRecv => 1.0,
    }
}

/// Measures one operation over all sizes, size by size in turn so that a noisy moment of the
/// machine falls on all of them.
///
/// # Errors
/// When a rank does not finish.
pub fn sweep(machine: &Machine, sweep: &Sweep) -> Result<Vec<Row>, BenchError> {
    let sizes = sweep.sizes.len() as u32;
    let workload = WorkloadPlan {
        collectives: vec![sweep.collective],
        dtype: sweep.dtype,
        bytes: sweep.sizes.clone(),
        iterations: sweep.iterations * sizes,
        warmup: sweep.warmup.max(1) * sizes,
        interval: Nanos::ZERO,
        check: sweep.check,
    };
    let boxes = job::run(machine, &workload)?;
    Ok(sweep.sizes.iter().map(|bytes| row(machine, sweep, *bytes, &boxes)).collect())
}

fn row(machine: &Machine, sweep: &Sweep, bytes: Bytes, boxes: &[OpSummary]) -> Row {
    let mut slowest = BTreeMap::<u64, u64>::new();
    let mut wrong = 0;
    for record in boxes.iter().flat_map(|b| &b.last).filter(|r| r.bytes == bytes && !r.warmup) {
        let took = record.ended.map_or(0, |end| end.since(record.enqueued).0);
        let known = slowest.entry(record.op).or_default();
        *known = (*known).max(took);
        wrong += u64::from(record.right == Some(false));
    }
    let mut times: Vec<u64> = slowest.into_values().collect();
    times.sort_unstable();
    let time = times.get(times.len() / 2).copied().unwrap_or(0);
    let algbw = if time == 0 { 0.0 } else { bytes.0 as f64 / time as f64 };
    Row {
        bytes,
        count: bytes.0 / sweep.dtype.size(),
        time: Nanos(time),
        algbw,
        busbw: algbw * bus_factor(sweep.collective, machine.world),
        wrong: sweep.check.then_some(wrong),
    }
}
