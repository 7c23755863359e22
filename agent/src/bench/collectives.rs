//! Time and bandwidth of the collectives by size, in the columns of nccl-tests.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::WorkloadPlan,
    event::OpSummary,
    units::{Bytes, Nanos},
    words::{Collective, Dtype},
};

use super::job::{self, BenchError, Machine};
use crate::rank::{
    backend::Op,
    data::{self, Shape},
};

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
    /// Size of the larger buffer: what was asked for, less what does not divide by the ranks.
    pub bytes: Bytes,
    /// The count that the operation is called with; where it deals in parts, that of a part.
    pub count: u64,
    /// Median over the operations: from the moment the last rank enqueued it to its end on the last
    /// rank.
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
        checkpoint: None,
    };
    let boxes = job::run(machine, &workload)?;
    Ok(sweep.sizes.iter().map(|bytes| row(machine, sweep, *bytes, &boxes)).collect())
}

fn row(machine: &Machine, sweep: &Sweep, bytes: Bytes, boxes: &[OpSummary]) -> Row {
    // Ranks come from checking the operation before at different times; who comes early waits, and
    // that is no time of the operation.
    let mut spans = BTreeMap::<u64, (Nanos, Nanos)>::new();
    let mut wrong = 0;
    for record in boxes.iter().flat_map(|b| &b.last).filter(|r| r.bytes == bytes && !r.warmup) {
        let (all_there, all_done) = spans.entry(record.op).or_default();
        *all_there = record.enqueued.max(*all_there);
        *all_done = record.ended.unwrap_or_default().max(*all_done);
        wrong += u64::from(record.right == Some(false));
    }
    let mut times: Vec<u64> =
        spans.into_values().map(|(all_there, all_done)| all_done.since(all_there).0).collect();
    times.sort_unstable();
    let time = times.get(times.len() / 2).copied().unwrap_or(0);
    let (bytes, count) = moved(sweep, bytes, machine.world);
    let algbw = if time == 0 { 0.0 } else { bytes.0 as f64 / time as f64 };
    Row {
        bytes,
        count,
        time: Nanos(time),
        algbw,
        busbw: algbw * bus_factor(sweep.collective, machine.world),
        wrong: sweep.check.then_some(wrong),
    }
}

/// Bytes and count as nccl-tests prints them.
fn moved(sweep: &Sweep, bytes: Bytes, world: u32) -> (Bytes, u64) {
    let Sweep { collective, dtype, .. } = *sweep;
    let op = Op { number: 0, collective, dtype, bytes: bytes.0 };
    let Shape { send, recv, part } = data::shape(&op, world);
    let count = match collective {
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => part,
        _ => send,
    };
    (Bytes(send.max(recv) as u64 * dtype.size()), count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_those_of_nccl_tests() {
        let moved = |collective, bytes, world| {
            let sweep = Sweep {
                collective,
                dtype: Dtype::F32,
                sizes: Vec::new(),
                iterations: 1,
                warmup: 1,
                check: true,
            };
            moved(&sweep, Bytes(bytes), world)
        };
        assert_eq!(moved(Collective::AllReduce, 1024, 4), (Bytes(1024), 256));
        assert_eq!(moved(Collective::AllGather, 1024, 4), (Bytes(1024), 64));
        assert_eq!(moved(Collective::ReduceScatter, 1024, 4), (Bytes(1024), 64));
        assert_eq!(moved(Collective::AllToAll, 1024, 3), (Bytes(1020), 85));
        assert_eq!(moved(Collective::Broadcast, 1023, 3), (Bytes(1020), 255));
    }

    #[test]
    fn the_bus_factor_counts_what_the_busiest_link_carries() {
        assert_eq!(bus_factor(Collective::AllReduce, 4), 1.5);
        assert_eq!(bus_factor(Collective::AllGather, 4), 0.75);
        assert_eq!(bus_factor(Collective::Broadcast, 4), 1.0);
    }
}
