//! An operation as calls of NCCL.

use std::ffi::{c_int, c_void};

use ringbreaker_scenarios::{
    case::Rank,
    words::{Collective, Dtype},
};

use super::{
    super::{backend::Op, code, data::shape},
    library::{Comm, Functions, Stream},
};

/// ncclSum.
const SUM: c_int = 0;
/// The rank that broadcasts and that reductions go to.
const ROOT: c_int = 0;

/// ncclDataType_t.
const fn datatype(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::I32 => 2,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::Bf16 => 9,
    }
}

/// What an operation acts on.
#[derive(Clone, Copy)]
pub(super) struct Ground {
    pub(super) comm: Comm,
    pub(super) stream: Stream,
    /// Address of the send buffer on the device.
    pub(super) send: u64,
    /// Address of the receive buffer on the device.
    pub(super) recv: u64,
    pub(super) rank: Rank,
    pub(super) world: u32,
}

/// Calls NCCL; returns its code.
///
/// # Safety
/// The communicator must be live and nobody else may be calling it; the buffers must hold what
/// `shape` says and stay allocated until the operation has ended.
pub(super) unsafe fn call(nccl: &Functions, op: &Op, ground: &Ground) -> i32 {
    let Ground { comm, stream, send, recv, .. } = *ground;
    let (from, to) = (send as *const c_void, recv as *mut c_void);
    let (shape, dtype) = (shape(op, ground.world), datatype(op.dtype));
    // SAFETY: the caller's promises; counts are those of the buffers.
    unsafe {
        match op.collective {
            Collective::AllReduce => {
                (nccl.all_reduce)(from, to, shape.send, dtype, SUM, comm, stream)
            }
            Collective::AllGather => (nccl.all_gather)(from, to, shape.send, dtype, comm, stream),
            Collective::ReduceScatter => {
                (nccl.reduce_scatter)(from, to, shape.recv, dtype, SUM, comm, stream)
            }
            Collective::Broadcast => {
                (nccl.broadcast)(from, to, shape.send, dtype, ROOT, comm, stream)
            }
            Collective::Reduce => {
                (nccl.reduce)(from, to, shape.send, dtype, SUM, ROOT, comm, stream)
            }
            Collective::AllToAll | Collective::SendRecv => point_to_point(nccl, op, ground),
        }
    }
}

/// One message: to or from a peer, of this many elements, at this element of the buffer.
struct Message {
    peer: c_int,
    at: usize,
    count: usize,
}

/// What a rank sends and receives, message by message.
fn messages(op: &Op, rank: Rank, world: u32) -> (Vec<Message>, Vec<Message>) {
    let shape = shape(op, world);
    let one = |peer: u32| Message { peer: peer as c_int, at: 0, count: shape.send };
    let part = |peer: u32| Message {
        peer: peer as c_int,
        at: peer as usize * shape.part,
        count: shape.part,
    };
    match op.collective {
        Collective::AllToAll => ((0..world).map(part).collect(), (0..world).map(part).collect()),
        _ => (vec![one((rank + 1) % world)], vec![one((rank + world - 1) % world)]),
    }
}

/// A group of sends and receives. ncclAlltoAll would do for one of them, but is absent before 2.28.
///
/// # Safety
/// As for [`call`].
unsafe fn point_to_point(nccl: &Functions, op: &Op, ground: &Ground) -> i32 {
    let Ground { comm, stream, send, recv, rank, world } = *ground;
    let (outgoing, incoming) = messages(op, rank, world);
    let (dtype, element) = (datatype(op.dtype), op.dtype.size());
    let at = |buffer: u64, message: &Message| buffer + message.at as u64 * element;
    // SAFETY: a group has no preconditions.
    let opened = unsafe { (nccl.group_start)() };
    if opened != code::SUCCESS {
        return opened;
    }
    let mut calls = Vec::with_capacity(outgoing.len() + incoming.len());
    for message in &outgoing {
        let from = at(send, message) as *const c_void;
        // SAFETY: the caller's promises; the message lies inside the buffer.
        calls.push(unsafe { (nccl.send)(from, message.count, dtype, message.peer, comm, stream) });
    }
    for message in &incoming {
        let to = at(recv, message) as *mut c_void;
        // SAFETY: the caller's promises; the message lies inside the buffer.
        calls.push(unsafe { (nccl.recv)(to, message.count, dtype, message.peer, comm, stream) });
    }
    // SAFETY: closes the group opened above, whatever the calls in it said.
    let closed = unsafe { (nccl.group_end)() };
    let failed = |code: &i32| *code != code::SUCCESS && *code != code::IN_PROGRESS;
    calls.into_iter().find(failed).unwrap_or(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_sent_is_received_and_fills_its_buffer() {
        for collective in [Collective::AllToAll, Collective::SendRecv] {
            for world in [1, 2, 3, 5] {
                let op = Op { number: 0, collective, dtype: Dtype::F32, bytes: 4096 };
                let ranks: Vec<_> = (0..world).map(|rank| messages(&op, rank, world)).collect();
                for (rank, (sent, received)) in (0..).zip(&ranks) {
                    for message in sent {
                        let theirs = &ranks[message.peer as usize].1;
                        let meets =
                            theirs.iter().any(|m| m.peer == rank && m.count == message.count);
                        assert!(meets, "{collective:?} {world}: {rank} to {}", message.peer);
                    }
                    let counts = received.iter().map(|m| m.count).sum::<usize>();
                    assert_eq!(counts, shape(&op, world).recv);
                    assert!(received.iter().all(|m| m.at + m.count <= shape(&op, world).recv));
                    assert!(sent.iter().all(|m| m.at + m.count <= shape(&op, world).send));
                }
            }
        }
    }
}
