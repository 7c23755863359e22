//! The thread that reads one node's packets and runs each to completion: straight to its
//! destination when no rule says otherwise, else by its course into the destination's queue.

use std::{
    io::{self, Read},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::Ordering::{Acquire, Relaxed},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{
    course::{self, Course},
    link::Link,
    packet::Packet,
    rule::Rule,
    switch::{Parcel, Switch},
};
use crate::sys::{clock, tun};

/// The largest packet with its header; the kernel gives at most 64 KiB at a time.
const LARGEST: usize = (64 << 10) + tun::HEADER;
/// Memory that waiting packets of one direction may hold.
const MOST_WAITING: u64 = 64 << 20;

/// A reader's own state; nothing of it is shared.
pub(super) struct Reader<'a> {
    switch: &'a Switch,
    from: usize,
    /// Copies of the rules of this sender's directions, and the epoch that they are of.
    rules: Vec<Rule>,
    epoch: u64,
    courses: Vec<Course>,
    /// Position of the port by the last byte of its address.
    by_address: [Option<usize>; 256],
    runs: Vec<Range<usize>>,
    cut: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(switch: &'a Switch, from: usize) -> Reader<'a> {
        let mut by_address = [None; 256];
        for (position, port) in switch.ports.iter().enumerate() {
            by_address[usize::from(port.address.octets()[3])] = Some(position);
        }
        let own = switch.ports[from].node;
        Reader {
            switch,
            from,
            rules: vec![Rule::default(); switch.ports.len()],
            epoch: 0,
            courses: switch.ports.iter().map(|p| Course::new(switch.seed, own, p.node)).collect(),
            by_address,
            runs: Vec::with_capacity(64),
            cut: Vec::with_capacity(LARGEST),
        }
    }

    /// Reads until the fabric stops, which closes the other end of `stop`.
    pub(super) fn run(mut self, stop: BorrowedFd<'_>) {
        let mut buffer = vec![0; LARGEST];
        let node = self.switch.ports[self.from].node;
        let tun = &self.switch.ports[self.from].tun;
        while !self.switch.stopping.load(Relaxed) {
            let mut source = tun;
            match source.read(&mut buffer) {
                Ok(length) => self.forward(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waits = [tun.as_fd(), stop].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
                    match poll(&mut { waits }, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(error) => {
                            return tracing::error!(node, %error, "the fabric lost a node");
                        }
                    }
                }
                Err(error) => return tracing::error!(node, %error, "the fabric lost a node"),
            }
        }
    }

    /// Packets that are not IPv4, or go nowhere, vanish, as on any network.
    fn forward(&mut self, bytes: &[u8]) {
        let Some(packet) = Packet::parse(bytes) else { return };
        let [10, 77, 0, last] = packet.destination().octets() else { return };
        let Some(to) = self.by_address[usize::from(last)] else { return };
        self.refresh_rules();
        let rule = self.rules[to];
        let link = self.switch.link(self.from, to);
        if rule.is_pass() && link.waiting.is_none() {
            self.pass(to, &packet, 0..packet.segments());
        } else if rule.partition {
            link.first.blocked.note();
            link.blocked.fetch_add(packet.segments() as u64, Relaxed);
        } else {
            self.apply(to, &rule, link, &packet);
        }
    }

    fn refresh_rules(&mut self) {
        let epoch = self.switch.epoch.load(Acquire);
        if epoch != self.epoch {
            self.epoch = epoch;
            for (to, rule) in self.rules.iter_mut().enumerate() {
                *rule = self.switch.link(self.from, to).rule();
            }
        }
    }

    fn apply(&mut self, to: usize, rule: &Rule, link: &Link, packet: &Packet<'_>) {
        let longest = course::longest_piece(rule, packet.wire_bytes(&(0..1)));
        let mut runs = std::mem::take(&mut self.runs);
        let lost = self.courses[to].survivors(rule.loss, packet.segments(), longest, &mut runs);
        if lost > 0 {
            link.first.lost.note();
            link.lost.fetch_add(lost as u64, Relaxed);
        }
        for run in runs.drain(..) {
            // While earlier packets wait, later ones wait behind them.
            if rule.delays() || !link.waiting.is_none() {
                self.queue(to, rule, link, packet, run);
            } else {
                self.pass(to, packet, run);
            }
        }
        self.runs = runs;
    }

    /// Straight to the destination.
    fn pass(&mut self, to: usize, packet: &Packet<'_>, run: Range<usize>) {
        let (segments, wire) = (run.len() as u64, packet.wire_bytes(&run));
        if run.len() == packet.segments() {
            return self.switch.deliver(self.from, to, packet.bytes(), segments, wire);
        }
        packet.cut(&run, &mut self.cut);
        self.switch.deliver(self.from, to, &self.cut, segments, wire);
    }

    /// Into the destination's queue.
    fn queue(
        &mut self,
        to: usize,
        rule: &Rule,
        link: &Link,
        packet: &Packet<'_>,
        run: Range<usize>,
    ) {
        let (segments, wire_bytes) = (run.len() as u64, packet.wire_bytes(&run));
        let full = link.waiting.bytes() >= MOST_WAITING;
        let arrival = match full {
            true => None,
            false => self.courses[to].arrival(rule, wire_bytes, clock::now()),
        };
        let Some(arrival) = arrival else {
            link.queue_dropped.fetch_add(segments, Relaxed);
            return;
        };
        if arrival.waited {
            link.first.rate_limited.note();
            link.rate_limited.fetch_add(segments, Relaxed);
        }
        link.first.delayed.note();
        let mut bytes = self.switch.pool.take(packet.bytes().len());
        packet.cut(&run, &mut bytes);
        link.waiting.add(bytes.capacity());
        let parcel = Parcel { from: self.from, bytes, segments, wire_bytes };
        self.switch.queues[to].push(arrival.at, parcel);
    }
}
