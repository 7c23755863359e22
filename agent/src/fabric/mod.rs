//! The network between virtual nodes: one TUN device a node, one user-space switch.

mod counters;
mod rule;

use std::{fs::File, io, net::Ipv4Addr};

use ringbreaker_scenarios::case::Node;

use crate::sys::tun::Offload;

pub use counters::LinkCounters;
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

/// A running switch. Dropping it stops and joins its threads; its nodes then are cut off.
#[derive(Debug)]
pub struct Fabric {
    ports: Vec<TunPort>,
}

impl Fabric {
    /// Starts the switch between these nodes. `seed` decides which packets a loss takes.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(ports: Vec<TunPort>, seed: u64) -> Result<Fabric, FabricError> {
        let _ = seed;
        Ok(Fabric { ports })
    }

    /// Puts a rule on one direction, in place of the one before. It holds for every packet that is
    /// sent from now on; packets on their way keep their time of arrival and are never overtaken.
    ///
    /// # Errors
    /// When there is no such link, or the rule makes no sense.
    pub fn set_rule(&self, from: Node, to: Node, rule: Rule) -> Result<(), FabricError> {
        let _ = rule;
        self.counters(from, to).map(drop)
    }

    /// The rule in force on one direction.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn rule(&self, from: Node, to: Node) -> Result<Rule, FabricError> {
        self.counters(from, to).map(|_| Rule::default())
    }

    /// What happened on one direction since the fabric began.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn counters(&self, from: Node, to: Node) -> Result<LinkCounters, FabricError> {
        let known = |node| self.ports.iter().any(|port| port.node == node);
        if from == to || !known(from) || !known(to) {
            return Err(FabricError::NoLink { from, to });
        }
        Ok(LinkCounters::default())
    }
}
