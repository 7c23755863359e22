//! The contents of buffers: what each rank sends, and what must come out, exactly.
//!
//! Values are small integers that every element type represents exactly, and so are their sums, in
//! any order of summation. They repeat in the element index with a short period, so that filling and
//! comparing go through a table of a few entries.

use half::{bf16, f16};
use ringbreaker_scenarios::{
    case::Rank,
    words::{Collective, Dtype},
};

use super::backend::{Check, Op};

/// Byte that fills receive buffers beforehand: no expected value looks like it in any element type
/// (-1 as an integer, not-a-number otherwise).
pub const POISON: u8 = 0xFF;

/// Periods in a block that is filled or compared at once: a few KiB.
const PERIODS: usize = 256;

/// Elements of an operation's buffers on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements that a rank sends.
    pub send: usize,
    /// Elements that a rank receives.
    pub recv: usize,
    /// Elements of one rank's part, where the operation deals in parts.
    pub part: usize,
}

/// Elements of this operation's buffers. The size is rounded down to whole elements, and to a
/// multiple of the world where the operation deals in parts; it is never nothing.
pub fn shape(op: &Op, world: u32) -> Shape {
    let world = world as usize;
    let whole = ((op.bytes / op.dtype.size()) as usize).max(1);
    let part = (whole / world).max(1);
    match op.collective {
        Collective::AllReduce
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv => Shape { send: whole, recv: whole, part },
        Collective::AllGather => Shape { send: part, recv: part * world, part },
        Collective::ReduceScatter => Shape { send: part * world, recv: part, part },
        Collective::AllToAll => Shape { send: part * world, recv: part * world, part },
    }
}

/// The data of one operation in a world of a given size.
#[derive(Clone, Debug)]
pub struct Data {
    op: Op,
    world: u32,
    shape: Shape,
    /// What a rank sends is `single[(index + 3 x rank + number) % period]`.
    single: Vec<Vec<u8>>,
    /// The sum over all ranks is `sum[index % period]`.
    sum: Vec<Vec<u8>>,
}

impl Data {
    /// The data of this operation in a world of this size.
    pub fn new(op: &Op, world: u32) -> Data {
        // bf16 is exact up to 256, so the sum of `world` values below `period` must stay there.
        let period = (256 / world.max(1)).clamp(2, 5);
        let value = |rank: u32, index: u32| {
            (u64::from(index) + 3 * u64::from(rank) + op.number) % u64::from(period)
        };
        let sum_at = |index| (0..world).map(|rank| value(rank, index)).sum::<u64>();
        Data {
            op: *op,
            world,
            shape: shape(op, world),
            single: (0..period).map(|v| encode(op.dtype, v)).collect(),
            sum: (0..period).map(|i| encode(op.dtype, sum_at(i) as u32)).collect(),
        }
    }

    /// What a rank sends repeats after this many elements.
    pub fn period(&self) -> usize {
        self.single.len()
    }

    fn single(&self, rank: Rank, index: usize) -> &[u8] {
        let period = self.single.len();
        &self.single
            [(index + 3 * rank as usize + (self.op.number % period as u64) as usize) % period]
    }

    fn sum(&self, index: usize) -> &[u8] {
        &self.sum[index % self.sum.len()]
    }

    /// What this rank's receive buffer must hold at this index; none: the operation leaves it alone.
    fn expected(&self, rank: Rank, index: usize) -> Option<&[u8]> {
        let part = self.shape.part;
        let mine = rank as usize * part;
        let sender = (index / part) as Rank;
        match self.op.collective {
            Collective::AllReduce => Some(self.sum(index)),
            Collective::Reduce => (rank == 0).then(|| self.sum(index)),
            Collective::Broadcast => Some(self.single(0, index)),
            Collective::AllGather => Some(self.single(sender, index % part)),
            Collective::ReduceScatter => Some(self.sum(mine + index)),
            Collective::AllToAll => Some(self.single(sender, mine + index % part)),
            Collective::SendRecv => Some(self.single((rank + self.world - 1) % self.world, index)),
        }
    }

    /// Writes what this rank sends; `buffer` holds `shape().send` elements.
    pub fn fill(&self, rank: Rank, buffer: &mut [u8]) {
        let pattern = self.pattern(|index| self.single(rank, index));
        for chunk in buffer.chunks_mut(pattern.len()) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
    }

    /// Compares `buffer`, which begins at element `from` of this rank's receive buffer.
    pub fn check(&self, rank: Rank, from: usize, buffer: &[u8]) -> Check {
        let size = self.op.dtype.size() as usize;
        let (mut at, end) = (from, from + buffer.len() / size);
        while at < end {
            // Within a part, what is expected repeats.
            let stop = end.min((at / self.shape.part + 1) * self.shape.part);
            let bytes = &buffer[(at - from) * size..(stop - from) * size];
            if self.expected(rank, at).is_none() {
                return Check::Right;
            }
            let pattern = self.pattern(|index| self.expected(rank, at + index).unwrap_or_default());
            let differs = |chunk: &[u8]| *chunk != pattern[..chunk.len()];
            if let Some(chunk) = bytes.chunks(pattern.len()).position(differs) {
                let skipped = chunk * pattern.len();
                return self.first_wrong(rank, at + skipped / size, &bytes[skipped..]);
            }
            at = stop;
        }
        Check::Right
    }

    /// As [`Data::check`], element by element.
    fn first_wrong(&self, rank: Rank, from: usize, buffer: &[u8]) -> Check {
        for (i, element) in buffer.chunks_exact(self.op.dtype.size() as usize).enumerate() {
            let Some(expected) = self.expected(rank, from + i) else { return Check::Right };
            if element != expected {
                return Check::Wrong {
                    element: (from + i) as u64,
                    expected: show(self.op.dtype, expected),
                    found: show(self.op.dtype, element),
                };
            }
        }
        Check::Right
    }

    /// The bytes of elements from 0 on: many whole periods, so that filling and comparing go by
    /// blocks.
    fn pattern<'a>(&self, element: impl Fn(usize) -> &'a [u8]) -> Vec<u8> {
        let period: Vec<u8> = (0..self.single.len()).flat_map(element).copied().collect();
        period.repeat(PERIODS)
    }
}

/// A small integer as the bytes of an element.
fn encode(dtype: Dtype, value: u32) -> Vec<u8> {
    match dtype {
        Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
        Dtype::I32 => (value as i32).to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(value as f32).to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(value as f32).to_ne_bytes().to_vec(),
    }
}

/// An element as a person reads it.
fn show(dtype: Dtype, element: &[u8]) -> String {
    let two = || [element[0], element[1]];
    let four = || [element[0], element[1], element[2], element[3]];
    match dtype {
        Dtype::F32 => f32::from_ne_bytes(four()).to_string(),
        Dtype::I32 => i32::from_ne_bytes(four()).to_string(),
        Dtype::F16 => f16::from_ne_bytes(two()).to_string(),
        Dtype::Bf16 => bf16::from_ne_bytes(two()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Carries an operation out on plain buffers, by its definition and in f64.
    fn by_definition(op: &Op, world: u32, rank: Rank, sent: &[Vec<f64>]) -> Option<Vec<f64>> {
        let shape = shape(op, world);
        let sum = |i: usize| sent.iter().map(|s| s[i]).sum::<f64>();
        let mine = rank as usize * shape.part;
        Some(match op.collective {
            Collective::AllReduce => (0..shape.recv).map(sum).collect(),
            Collective::Reduce if rank == 0 => (0..shape.recv).map(sum).collect(),
            Collective::Reduce => return None,
            Collective::Broadcast => sent[0].clone(),
            Collective::AllGather => sent.concat(),
            Collective::ReduceScatter => (mine..mine + shape.recv).map(sum).collect(),
            Collective::AllToAll => {
                sent.iter().flat_map(|s| s[mine..mine + shape.part].to_vec()).collect()
            }
            Collective::SendRecv => sent[((rank + world - 1) % world) as usize].clone(),
        })
    }

    fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
        let size = dtype.size() as usize;
        bytes.chunks_exact(size).map(|e| show(dtype, e).parse().expect("a number")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_is_expected_is_what_the_operation_is_defined_to_give(
            collective in proptest::sample::select(Collective::ALL),
            dtype in proptest::sample::select(Dtype::ALL),
            world in 1u32..9, bytes in 1u64..600, number in 0u64..20,
        ) {
            let op = Op { number, collective, dtype, bytes };
            let (data, shape) = (Data::new(&op, world), shape(&op, world));
            let size = dtype.size() as usize;
            let sent: Vec<Vec<f64>> = (0..world).map(|rank| {
                let mut buffer = vec![POISON; shape.send * size];
                data.fill(rank, &mut buffer);
                numbers(dtype, &buffer)
            }).collect();
            for rank in 0..world {
                let mut received = vec![POISON; shape.recv * size];
                if let Some(result) = by_definition(&op, world, rank, &sent) {
                    prop_assert_ne!(data.check(rank, 0, &received), Check::Right, "poison passed");
                    for (slot, value) in received.chunks_exact_mut(size).zip(&result) {
                        slot.copy_from_slice(&encode(dtype, *value as u32));
                    }
                }
                prop_assert_eq!(data.check(rank, 0, &received), Check::Right);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn one_wrong_element_is_found_wherever_it_is(
            collective in proptest::sample::select(Collective::ALL),
            dtype in proptest::sample::select(Dtype::ALL),
            world in 1u32..5, elements in 4u64..9_000, place in 0.0f64..1.0, from in 0usize..4,
        ) {
            let op = Op { number: 3, collective, dtype, bytes: elements * dtype.size() };
            let (data, shape) = (Data::new(&op, world), shape(&op, world));
            let size = dtype.size() as usize;
            // Rank 0 has something to expect of every operation.
            let right: Vec<u8> =
                (0..shape.recv).flat_map(|i| data.expected(0, i).unwrap().to_vec()).collect();
            prop_assert_eq!(data.check(0, 0, &right), Check::Right);
            let wrong = (place * shape.recv as f64) as usize;
            let mut damaged = right;
            damaged[wrong * size..(wrong + 1) * size].fill(POISON);
            let from = from.min(wrong);
            match data.check(0, from, &damaged[from * size..]) {
                Check::Wrong { element, .. } => prop_assert_eq!(element, wrong as u64),
                Check::Right => prop_assert!(false, "element {} passed", wrong),
            }
        }
    }

    #[test]
    fn the_result_of_the_operation_before_does_not_pass() {
        let op =
            |number| Op { number, collective: Collective::Broadcast, dtype: Dtype::F32, bytes: 64 };
        let mut earlier = vec![0; 64];
        Data::new(&op(6), 2).fill(0, &mut earlier);
        assert_eq!(Data::new(&op(6), 2).check(1, 0, &earlier), Check::Right);
        assert_ne!(Data::new(&op(7), 2).check(1, 0, &earlier), Check::Right);
    }
}
