//! The operations, over connections to the right and from the left (all_to_all: to and from every
//! rank).

use std::{collections::BTreeSet, ops::Range};

use half::{bf16, f16};
use ringbreaker_scenarios::{
    case::Rank,
    words::{Collective, Dtype},
};

use super::{
    super::{backend::Op, data::shape},
    peers::Peers,
    socket::{Broken, Halt, exchange},
};

/// Chains pass data on in pieces of this many bytes, so that all links work at once.
const PIECE: usize = 128 << 10;

/// Whom an operation sends to and receives from.
pub(super) fn partners(
    collective: Collective,
    rank: Rank,
    world: u32,
) -> (BTreeSet<Rank>, BTreeSet<Rank>) {
    let others = || (0..world).filter(|r| *r != rank).collect();
    if world == 1 {
        return (BTreeSet::new(), BTreeSet::new());
    }
    match collective {
        Collective::AllToAll => (others(), others()),
        _ => ([(rank + 1) % world].into(), [(rank + world - 1) % world].into()),
    }
}

/// One operation in progress.
pub(super) struct Ring<'a> {
    pub(super) op: &'a Op,
    pub(super) rank: Rank,
    pub(super) world: u32,
    pub(super) peers: &'a Peers,
    pub(super) halt: &'a Halt,
}

impl Ring<'_> {
    /// Carries the operation out: reads `send`, fills `recv`.
    pub(super) fn run(&self, send: &[u8], recv: &mut [u8]) -> Result<(), Broken> {
        let part = shape(self.op, self.world).part * self.op.dtype.size() as usize;
        let mine = self.rank as usize * part..(self.rank as usize + 1) * part;
        match self.op.collective {
            Collective::AllReduce => {
                recv.copy_from_slice(send);
                let blocks = self.blocks(recv.len());
                self.reduce_around(recv, &blocks, 0)?;
                self.pass_around(recv, &blocks, 1)
            }
            Collective::AllGather => {
                recv[mine].copy_from_slice(send);
                self.pass_around(recv, &self.parts(part), 0)
            }
            Collective::ReduceScatter => {
                let mut work = send.to_vec();
                self.reduce_around(&mut work, &self.parts(part), 1)?;
                recv.copy_from_slice(&work[mine]);
                Ok(())
            }
            Collective::Broadcast => self.broadcast(send, recv),
            Collective::Reduce => self.reduce(send, recv),
            Collective::SendRecv => self.swap(self.right(), send, self.left(), recv),
            Collective::AllToAll => self.all_to_all(send, recv, &self.parts(part)),
        }
    }

    const fn right(&self) -> Rank {
        (self.rank + 1) % self.world
    }

    const fn left(&self) -> Rank {
        (self.rank + self.world - 1) % self.world
    }

    /// `rank - back`, around the ring.
    const fn behind(&self, back: u32) -> usize {
        ((self.rank + 2 * self.world - back) % self.world) as usize
    }

    /// Nearly equal blocks of whole elements, one a rank.
    fn blocks(&self, bytes: usize) -> Vec<Range<usize>> {
        let size = self.op.dtype.size() as usize;
        let (elements, world) = (bytes / size, self.world as usize);
        let cut = |i: usize| i * elements / world * size;
        (0..world).map(|i| cut(i)..cut(i + 1)).collect()
    }

    /// Equal parts, one a rank.
    fn parts(&self, part: usize) -> Vec<Range<usize>> {
        (0..self.world as usize).map(|i| i * part..(i + 1) * part).collect()
    }

    fn swap(&self, to: Rank, out: &[u8], from: Rank, into: &mut [u8]) -> Result<(), Broken> {
        if self.world == 1 {
            into.copy_from_slice(out);
            return Ok(());
        }
        exchange(Some((self.peers.to(to), out)), Some((self.peers.from(from), into)), self.halt)
    }

    /// After world - 1 steps each rank holds the sum of one block: its right neighbour's with
    /// `back` 0, its own with `back` 1.
    fn reduce_around(
        &self,
        data: &mut [u8],
        blocks: &[Range<usize>],
        back: u32,
    ) -> Result<(), Broken> {
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        let mut received = vec![0; longest];
        for step in 0..self.world - 1 {
            let out = blocks[self.behind(step + back)].clone();
            let into = blocks[self.behind(step + back + 1)].clone();
            let arriving = &mut received[..into.len()];
            self.swap(self.right(), &data[out], self.left(), arriving)?;
            add(self.op.dtype, &mut data[into], arriving);
        }
        Ok(())
    }

    /// Passes blocks on until everybody has all; `ahead` tells whose block a rank begins with:
    /// `rank + ahead`.
    fn pass_around(
        &self,
        data: &mut [u8],
        blocks: &[Range<usize>],
        ahead: u32,
    ) -> Result<(), Broken> {
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        let mut received = vec![0; longest];
        for step in 0..self.world - 1 {
            let out = blocks[self.behind(step + self.world - ahead)].clone();
            let into = blocks[self.behind(step + self.world - ahead + 1)].clone();
            let arriving = &mut received[..into.len()];
            self.swap(self.right(), &data[out], self.left(), arriving)?;
            data[into].copy_from_slice(arriving);
        }
        Ok(())
    }

    /// A chain from rank 0 to the right; the last rank keeps it to itself.
    fn broadcast(&self, send: &[u8], recv: &mut [u8]) -> Result<(), Broken> {
        if self.rank == 0 {
            recv.copy_from_slice(send);
        }
        for piece in recv.chunks_mut(PIECE) {
            if self.rank != 0 {
                exchange(None, Some((self.peers.from(self.left()), &mut *piece)), self.halt)?;
            }
            if self.right() != 0 {
                exchange(Some((self.peers.to(self.right()), piece)), None, self.halt)?;
            }
        }
        Ok(())
    }

    /// A chain from rank 1 around to rank 0, each adding its own.
    fn reduce(&self, send: &[u8], recv: &mut [u8]) -> Result<(), Broken> {
        let mut work = vec![0; PIECE.min(send.len())];
        for (own, result) in send.chunks(PIECE).zip(recv.chunks_mut(PIECE)) {
            let sum = &mut work[..own.len()];
            sum.copy_from_slice(own);
            if self.world > 1 && self.rank != 1 {
                // The receive buffer of a rank that is not the root stays as it was.
                let mut arriving = vec![0; own.len()];
                let left = self.peers.from(self.left());
                exchange(None, Some((left, &mut arriving)), self.halt)?;
                add(self.op.dtype, sum, &arriving);
            }
            if self.rank == 0 {
                result.copy_from_slice(sum);
            } else {
                exchange(Some((self.peers.to(self.right()), sum)), None, self.halt)?;
            }
        }
        Ok(())
    }

    fn all_to_all(
        &self,
        send: &[u8],
        recv: &mut [u8],
        parts: &[Range<usize>],
    ) -> Result<(), Broken> {
        let mine = parts[self.rank as usize].clone();
        recv[mine.clone()].copy_from_slice(&send[mine]);
        for distance in 1..self.world {
            let to = (self.rank + distance) % self.world;
            let from = (self.rank + self.world - distance) % self.world;
            let (out, into) = (parts[to as usize].clone(), parts[from as usize].clone());
            self.swap(to, &send[out], from, &mut recv[into])?;
        }
        Ok(())
    }
}

/// Adds `other` to `sum`, element by element.
fn add(dtype: Dtype, sum: &mut [u8], other: &[u8]) {
    macro_rules! elements {
        ($kind:ty, $add:expr) => {
            for (a, b) in
                sum.chunks_exact_mut(size_of::<$kind>()).zip(other.chunks_exact(size_of::<$kind>()))
            {
                let read = |bytes: &[u8]| {
                    <$kind>::from_ne_bytes(bytes.try_into().expect("invariant: one element"))
                };
                let total: $kind = $add(read(a), read(b));
                a.copy_from_slice(&total.to_ne_bytes());
            }
        };
    }
    match dtype {
        Dtype::F32 => elements!(f32, |a: f32, b: f32| a + b),
        Dtype::I32 => elements!(i32, |a: i32, b: i32| a.wrapping_add(b)),
        Dtype::F16 => elements!(f16, |a: f16, b: f16| a + b),
        Dtype::Bf16 => elements!(bf16, |a: bf16, b: bf16| a + b),
    }
}
