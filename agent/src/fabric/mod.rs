//! The network between virtual nodes: one TUN device a node, one user-space switch.
//!
//! ```text
//! node 0 -- TUN --> reader --(no rule)--------------------------> TUN --> node 1
//!                      \--(delay, jitter, rate)--> queue --> deliverer --/
//! ```
//!
//! The case starts it with its nodes; injectors put a [`Rule`] on a direction of a link. It carries
//! IPv4. Losses are drawn a wire packet each, although the kernel hands over up to 64 KiB of a
//! connection at once (`packet`); nothing is ever reordered; every packet that does not arrive is
//! counted. It has no name in the file system and vanishes with the process.
//!
//! - `packet`, `course`: pure; what happens to a packet;
//! - `reader`, `switch`, `queue`: the threads, and what they share;
//! - [`mod@bench`]: how fast and how exact it is, beside the kernel's own veth.

pub mod bench;
mod counters;
mod course;
mod link;
mod packet;
mod pool;
mod queue;
mod reader;
mod rule;
mod switch;

use std::{
    fs::File,
    io, mem,
    net::Ipv4Addr,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
};

use ringbreaker_scenarios::case::Node;

use crate::sys::tun::Offload;

use link::Link;
use reader::Reader;
use switch::Switch;

pub use counters::{FirstMet, LinkCounters};
pub use rule::Rule;

/// The fabric's end of a node's network.
#[derive(Debug)]
pub struct TunPort {
    /// The node.
    pub node: Node,
    /// Its address.
    pub address: Ipv4Addr,
    /// Packets of the node, each behind a virtio header.
    pub tun: File,
    /// What the device leaves to us.
    pub offload: Offload,
}

/// Why a fabric could not be started or ruled.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// A link that does not exist.
    #[error("there is no link from node {from} to node {to}")]
    NoLink {
        /// The sender.
        from: Node,
        /// The receiver.
        to: Node,
    },
    /// A rule that makes no sense.
    #[error("the rule from node {from} to node {to} is wrong: {reason}")]
    WrongRule {
        /// The sender.
        from: Node,
        /// The receiver.
        to: Node,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A step failed.
    #[error("could not {step}: {source}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A running switch. Dropping it stops and joins its threads; its nodes then are cut off, and its
/// devices vanish within a tenth of a second.
#[derive(Debug)]
pub struct Fabric {
    switch: Arc<Switch>,
    threads: Vec<JoinHandle<()>>,
    /// Closing it wakes every reader.
    stop: Option<OwnedFd>,
}

impl Fabric {
    /// Starts the switch between these nodes. `seed` decides which packets a loss takes.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(ports: Vec<TunPort>, seed: u64) -> Result<Fabric, FabricError> {
        let step = |step| move |source| FabricError::Step { step, source };
        let (stopped, stop) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(io::Error::from)
            .map_err(step("make the fabric's stop pipe"))?;
        let stopped = Arc::new(stopped);
        let switch = Arc::new(Switch::new(ports, seed));
        // Dropped on an error below, which ends the threads started by then.
        let mut fabric =
            Fabric { switch: Arc::clone(&switch), threads: Vec::new(), stop: Some(stop) };
        for position in 0..switch.ports.len() {
            let node = switch.ports[position].node;
            let (own, stopped) = (Arc::clone(&switch), Arc::clone(&stopped));
            fabric
                .spawn(format!("fabric-read-{node}"), move || {
                    Reader::new(&own, position).run(stopped.as_fd());
                })
                .map_err(step("start a reader of the fabric"))?;
            let own = Arc::clone(&switch);
            fabric
                .spawn(format!("fabric-wait-{node}"), move || own.deliver_in_time(position))
                .map_err(step("start a deliverer of the fabric"))?;
        }
        Ok(fabric)
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(work)?);
        Ok(())
    }

    /// Puts a rule on one direction, in place of the one before. It holds for every packet that is
    /// sent from now on; packets on their way keep their time of arrival and are never overtaken. A
    /// partition takes also those on their way.
    ///
    /// # Errors
    /// When there is no such link, or the rule makes no sense.
    pub fn set_rule(&self, from: Node, to: Node, rule: Rule) -> Result<(), FabricError> {
        if let Some(reason) = rule.problem() {
            return Err(FabricError::WrongRule { from, to, reason });
        }
        self.link(from, to)?.set_rule(rule);
        self.switch.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The rule in force on one direction.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn rule(&self, from: Node, to: Node) -> Result<Rule, FabricError> {
        Ok(self.link(from, to)?.rule())
    }

    /// What happened on one direction since the fabric began.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn counters(&self, from: Node, to: Node) -> Result<LinkCounters, FabricError> {
        Ok(self.link(from, to)?.counters())
    }

    /// Every direction there is.
    pub fn directions(&self) -> Vec<(Node, Node)> {
        let nodes = || self.switch.ports.iter().map(|port| port.node);
        nodes().flat_map(|a| nodes().filter(move |b| a != *b).map(move |b| (a, b))).collect()
    }

    fn link(&self, from: Node, to: Node) -> Result<&Link, FabricError> {
        match (self.switch.position(from), self.switch.position(to)) {
            (Some(a), Some(b)) if a != b => Ok(self.switch.link(a, b)),
            _ => Err(FabricError::NoLink { from, to }),
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.switch.stopping.store(true, Ordering::Relaxed);
        self.stop = None;
        for queue in &self.switch.queues {
            queue.close();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the fabric had panicked: packets were not delivered");
            }
        }
        // The kernel takes some 20 ms to remove a device, which the next case need not wait for.
        // Should no thread start, they are closed here.
        let devices = mem::replace(&mut self.switch, Arc::new(Switch::new(Vec::new(), 0)));
        drop(thread::Builder::new().name("fabric-close".into()).spawn(move || drop(devices)));
    }
}
