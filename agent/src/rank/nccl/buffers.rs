//! Send and receive buffers on the GPU: filled, poisoned, checked.
//!
//! The send buffer is filled on the device: one piece of the pattern is copied up and doubled there,
//! so that a buffer of 256 MiB costs as little as the GPU's own memory allows. Receive buffers up to
//! [`WHOLE`] are checked in full, larger ones in the [`pieces`] that are spread over them.

use std::ops::Range;

use ringbreaker_scenarios::case::Rank;

use super::{
    super::{
        backend::{Check, Op},
        data::{Data, POISON, Shape, shape},
    },
    cuda::{CudaError, Device, DeviceMemory, HostMemory, Stream},
};

/// Receive buffers up to this size are checked byte by byte.
const WHOLE: usize = 4 << 20;
/// Larger ones: this much at each end,
const EDGE: usize = 1 << 20;
/// and this many pieces between,
const SAMPLES: usize = 16;
/// of this size.
const SAMPLE: usize = 64 << 10;
/// The piece of the pattern that is copied up holds about this much.
const PATTERN: usize = 64 << 10;

/// The buffers of a rank. They grow with the operations.
#[derive(Debug)]
pub(super) struct Buffers {
    send: DeviceMemory,
    recv: DeviceMemory,
    host: HostMemory,
}

fn sizes(op: &Op, world: u32) -> (Shape, usize, usize) {
    let (shape, element) = (shape(op, world), op.dtype.size() as usize);
    (shape, shape.send * element, shape.recv * element)
}

impl Buffers {
    /// Buffers large enough for this operation.
    pub(super) fn new(device: &Device, op: &Op, world: u32) -> Result<Buffers, CudaError> {
        let (_, send, recv) = sizes(op, world);
        Ok(Buffers {
            send: device.allocate(send)?,
            recv: device.allocate(recv)?,
            host: device.allocate_host(WHOLE)?,
        })
    }

    /// Makes them large enough, fills the send buffer and poisons the receive buffer.
    pub(super) fn prepare(
        &mut self,
        device: &Device,
        stream: &Stream,
        op: &Op,
        (rank, world): (Rank, u32),
    ) -> Result<(), CudaError> {
        let (_, send, recv) = sizes(op, world);
        grow(device, &mut self.send, send)?;
        grow(device, &mut self.recv, recv)?;
        let data = Data::new(op, world);
        let period = data.period() * op.dtype.size() as usize;
        let pattern = (PATTERN / period * period).min(send);
        data.fill(rank, &mut self.host.bytes()[..pattern]);
        stream.upload(&self.send, &self.host, pattern)?;
        let mut filled = pattern;
        while filled < send {
            let more = filled.min(send - filled);
            stream.repeat(&self.send, filled, more)?;
            filled += more;
        }
        stream.fill(&self.recv, POISON, recv)?;
        stream.synchronize()
    }

    /// Compares what was received with what must have been.
    pub(super) fn check(
        &mut self,
        stream: &Stream,
        op: &Op,
        (rank, world): (Rank, u32),
    ) -> Result<Check, CudaError> {
        let (_, _, recv) = sizes(op, world);
        let element = op.dtype.size() as usize;
        let pieces = pieces(recv, element);
        let mut rest = self.host.bytes();
        for piece in &pieces {
            let (place, after) = rest.split_at_mut(piece.len());
            stream.download(&self.recv, piece.start, place)?;
            rest = after;
        }
        stream.synchronize()?;
        let data = Data::new(op, world);
        let mut rest: &[u8] = self.host.bytes();
        for piece in &pieces {
            let (found, after) = rest.split_at(piece.len());
            let check = data.check(rank, piece.start / element, found);
            if check != Check::Right {
                return Ok(check);
            }
            rest = after;
        }
        Ok(Check::Right)
    }

    /// Addresses of the send and the receive buffer on the device.
    pub(super) const fn addresses(&self) -> (u64, u64) {
        (self.send.address(), self.recv.address())
    }

    /// Gives the device memory back; nothing may be running.
    pub(super) fn free(self) -> Result<(), CudaError> {
        self.send.free()?;
        self.recv.free()
    }
}

/// Exchanges memory for more; nothing may be running on it.
fn grow(device: &Device, memory: &mut DeviceMemory, bytes: usize) -> Result<(), CudaError> {
    if memory.bytes() < bytes {
        // Both exist for a moment; a rank that cannot have both could not go on with less either.
        std::mem::replace(memory, device.allocate(bytes)?).free()?;
    }
    Ok(())
}

/// Which bytes of a buffer are compared: all of a small one; of a large one both edges, where
/// off-by-one errors of a transport show, and samples at even distances between. Never more than
/// [`WHOLE`] in all, in order, and in whole elements.
fn pieces(bytes: usize, element: usize) -> Vec<Range<usize>> {
    if bytes <= WHOLE {
        return Vec::from([Range { start: 0, end: bytes }]);
    }
    let between = bytes - 2 * EDGE - SAMPLE;
    let sample = |i: usize| {
        let start = EDGE + between / (SAMPLES + 1) * (i + 1);
        let start = start / element * element;
        start..start + SAMPLE
    };
    let mut pieces: Vec<_> = (0..SAMPLES).map(sample).collect();
    pieces.insert(0, 0..EDGE);
    pieces.push(bytes - EDGE..bytes);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_are_compared_in_full_and_large_ones_at_both_edges_and_between() {
        assert_eq!(pieces(WHOLE, 4), [Range { start: 0, end: WHOLE }]);
        for bytes in [WHOLE + 4, (16 << 20) + 12, 256 << 20, (1 << 30) - 4] {
            let pieces = pieces(bytes, 4);
            assert_eq!(pieces.len(), SAMPLES + 2);
            assert_eq!((pieces[0].start, pieces[SAMPLES + 1].end), (0, bytes));
            assert!(pieces.windows(2).all(|two| two[0].end <= two[1].start), "{pieces:?}");
            assert!(pieces.iter().all(|p| p.start % 4 == 0 && p.len() % 4 == 0));
            assert!(pieces.iter().map(ExactSizeIterator::len).sum::<usize>() <= WHOLE);
            // No stretch longer than an eighth of the buffer goes unseen.
            let gap = pieces.windows(2).map(|two| two[1].start - two[0].end).max();
            assert!(gap.is_some_and(|gap| gap < bytes / 8), "{bytes}: {gap:?}");
        }
    }
}
