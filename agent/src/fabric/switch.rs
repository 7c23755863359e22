//! What the threads of a fabric share, and the thread that delivers packets that waited.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use ringbreaker_scenarios::case::Node;

use super::{TunPort, link::Link, pool::Pool, queue::DelayQueue};
use crate::sys::{clock, thread};

/// A packet on its way.
#[derive(Debug)]
pub(super) struct Parcel {
    /// Position of its sender among the ports.
    pub(super) from: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) segments: u64,
    pub(super) wire_bytes: usize,
}

/// The shared parts of a fabric.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) ports: Vec<TunPort>,
    pub(super) seed: u64,
    /// One direction each: sender times number of ports plus receiver.
    links: Vec<Link>,
    /// What waits for each port.
    pub(super) queues: Vec<DelayQueue<Parcel>>,
    pub(super) pool: Pool,
    /// Counts changes of rules, so that readers may keep copies.
    pub(super) epoch: AtomicU64,
    pub(super) stopping: AtomicBool,
}

impl Switch {
    pub(super) fn new(ports: Vec<TunPort>, seed: u64) -> Switch {
        Switch {
            links: (0..ports.len() * ports.len()).map(|_| Link::default()).collect(),
            queues: ports.iter().map(|_| DelayQueue::new()).collect(),
            pool: Pool::default(),
            epoch: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            ports,
            seed,
        }
    }

    /// Position of a node among the ports.
    pub(super) fn position(&self, node: Node) -> Option<usize> {
        self.ports.iter().position(|port| port.node == node)
    }

    pub(super) fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.ports.len() + to]
    }

    /// Gives a packet to the destination's kernel; its work of receiving happens in here.
    pub(super) fn deliver(&self, from: usize, to: usize, bytes: &[u8], segments: u64, wire: usize) {
        let written = (&self.ports[to].tun).write(bytes).is_ok();
        self.link(from, to).count_delivery(written, segments, wire);
    }

    /// Delivers what waits for one port, until the queue is closed.
    pub(super) fn deliver_in_time(&self, to: usize) {
        // Without it packets are some 50 us later, which the lateness shows.
        drop(thread::exact_timers());
        while let Some((at, parcel)) = self.queues[to].next() {
            let Parcel { from, bytes, segments, wire_bytes } = parcel;
            let link = self.link(from, to);
            if link.partition.load(Ordering::Relaxed) {
                link.first.blocked.note();
                link.blocked.fetch_add(segments, Ordering::Relaxed);
            } else {
                link.record_lateness(clock::now().since(at));
                self.deliver(from, to, &bytes, segments, wire_bytes);
                link.delayed.fetch_add(segments, Ordering::Relaxed);
            }
            link.waiting.remove(bytes.capacity());
            self.pool.give(bytes);
        }
    }
}
