//! What recording costs: the black box an operation, and the checks in bandwidth.

use std::{fs, time::Instant};

use ringbreaker_scenarios::{
    units::{Bytes, Nanos},
    words::{Collective, Dtype},
};

use super::{
    collectives::{self, Sweep},
    job::{BenchError, Machine},
};
use crate::{
    rank::{backend::Op, blackbox::BlackBox},
    sys::clock,
};

/// Operations written to measure the black box alone.
const WRITES: u64 = 200_000;
/// Pairs of jobs, with and without; interleaved, so that both meet the same machine.
const ROUNDS: u32 = 3;
/// Counted operations a job.
const OPERATIONS: u32 = 30;

/// What recording costs.
#[derive(Clone, Debug)]
pub struct RecorderCost {
    /// Writing one operation to the black box, two clock readings included.
    pub per_operation: Nanos,
    /// By size: busbw of a job whose results are compared, divided by one whose are not. What the
    /// black box takes of an operation is `per_operation` and in both.
    pub bandwidth: Vec<(Bytes, f64)>,
}

/// Measures both, on all_reduce of f32.
///
/// # Errors
/// When a rank does not finish.
pub fn measure(machine: &Machine, sizes: &[Bytes]) -> Result<RecorderCost, BenchError> {
    let bandwidth = sizes
        .iter()
        .map(|bytes| Ok((*bytes, ratio(machine, *bytes)?)))
        .collect::<Result<_, BenchError>>()?;
    Ok(RecorderCost { per_operation: black_box_alone(machine)?, bandwidth })
}

fn black_box_alone(machine: &Machine) -> Result<Nanos, BenchError> {
    let path = machine.directory.join("alone.blackbox");
    let black_box = BlackBox::create(&path, 1024)?;
    let began = Instant::now();
    for number in 0..WRITES {
        let op = Op { number, collective: Collective::AllReduce, dtype: Dtype::F32, bytes: 8 };
        black_box.enqueued(&op, false, clock::now());
        black_box.ended(&op, clock::now());
        black_box.checked(&op, true);
    }
    let took = Nanos::from(began.elapsed());
    // Only a measurement's scratch file: a job's own boxes are the caller's to keep.
    let _removed = fs::remove_file(path);
    Ok(Nanos(took.0 / WRITES))
}

/// Time of an operation without checks, over the time with them: the share of busbw that is left.
fn ratio(machine: &Machine, bytes: Bytes) -> Result<f64, BenchError> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..2 * ROUNDS {
        let check = round % 2 == 0;
        let sweep = Sweep {
            collective: Collective::AllReduce,
            dtype: Dtype::F32,
            sizes: vec![bytes],
            iterations: OPERATIONS,
            warmup: 3,
            check,
        };
        let times = if check { &mut with } else { &mut without };
        times.extend(collectives::sweep(machine, &sweep)?.iter().map(|row| row.time.0));
    }
    with.sort_unstable();
    without.sort_unstable();
    let middle = ROUNDS as usize / 2;
    Ok(without[middle] as f64 / with[middle].max(1) as f64)
}
