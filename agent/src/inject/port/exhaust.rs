//! No automatic port is left on a node.

use std::{io, net::Ipv4Addr, ops::RangeInclusive, os::fd::OwnedFd};

use ringbreaker_scenarios::fault::ExhaustPorts;

use super::{bound, refused};
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
    sys::sysctl,
};

const FAULT: &str = "exhaust_ports";
/// The kernel's range of automatic ports, of the network namespace that the caller is in.
const RANGE: &str = "net.ipv4.ip_local_port_range";
/// How many ports are taken; the range becomes this and those that stay free. Small, so that the
/// agent needs few sockets, and at the top end, where nothing listens by convention.
const TAKEN: u16 = 64;
/// More free ports than this is no exhaustion.
const MOST_LEFT: u16 = 16_384;

/// The node's automatic range is narrowed and every port in it but some bound by the agent. Sockets
/// that are open already are not touched.
///
/// Witness: in the node, binding to port 0 is told "address in use" (with some left: each port of
/// the range is tried, and no more than those can be bound).
pub(in crate::inject) struct Exhausted {
    nodes: Targets,
    leave: u16,
    held: Vec<OwnedFd>,
    /// The ranges to restore, in order of `nodes`.
    before: Vec<String>,
}

impl Exhausted {
    /// Takes nothing yet.
    pub(in crate::inject) fn new(
        fault: &ExhaustPorts,
        nodes: Targets,
    ) -> Result<Exhausted, InjectError> {
        if fault.leave > MOST_LEFT {
            let reason = format!("leaving {} ports free exhausts nothing", fault.leave);
            return Err(InjectError::not_possible(FAULT, reason));
        }
        Ok(Exhausted { nodes, leave: fault.leave, held: Vec::new(), before: Vec::new() })
    }

    fn range(&self) -> RangeInclusive<u16> {
        u16::MAX - (TAKEN + self.leave) + 1..=u16::MAX
    }

    /// Whether the node has no more than `leave` ports to give.
    fn exhausted(&self, node: &VirtualNode) -> io::Result<bool> {
        let (range, leave) = (self.range(), self.leave);
        Targets::inside(node, move || {
            if leave == 0 {
                return refused(Ipv4Addr::UNSPECIFIED, 0);
            }
            let mut free = 0;
            for port in range {
                if !refused(Ipv4Addr::UNSPECIFIED, port)? {
                    free += 1;
                }
            }
            Ok(free <= leave)
        })
    }
}

/// Narrows the range and binds all of it but `leave` ports; the old range comes first, so that a
/// failure half-way can be taken back.
fn take(range: RangeInclusive<u16>, leave: u16) -> io::Result<Vec<OwnedFd>> {
    sysctl::write(RANGE, &format!("{} {}", range.start(), range.end()))?;
    let wanted = range.len() - usize::from(leave);
    let mut held = Vec::with_capacity(wanted);
    for port in range {
        if held.len() == wanted {
            break;
        }
        // A port that a socket of the job holds already is as taken as one that we hold.
        if let Ok(socket) = bound(Ipv4Addr::UNSPECIFIED, port) {
            held.push(socket);
        }
    }
    Ok(held)
}

impl Injector for Exhausted {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let before = Targets::inside(node, || sysctl::read(RANGE))
                .map_err(InjectError::step(FAULT, "read the range of ports"))?;
            self.before.push(before);
            let (range, leave) = (self.range(), self.leave);
            let held = Targets::inside(node, move || take(range, leave))
                .map_err(InjectError::step(FAULT, "take the range of ports"))?;
            self.held.extend(held);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        for node in self.nodes.iter() {
            if !self.exhausted(node).ok()? {
                return None;
            }
        }
        Some(match self.leave {
            0 => "a bind to port 0 was told: address already in use".to_owned(),
            leave => format!("of the range of automatic ports at most {leave} can be bound"),
        })
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        self.held.clear();
        for (node, before) in self.nodes.iter().zip(&self.before) {
            let restore = || {
                sysctl::write(RANGE, before)?;
                sysctl::read(RANGE)
            };
            let now = Targets::inside(node, restore)
                .map_err(InjectError::step(FAULT, "restore the range of ports"))?;
            let still = self.exhausted(node).map_err(InjectError::step(FAULT, "try a port"))?;
            if now != *before || still {
                let found = format!("an automatic port range of {now}, all of it taken: {still}");
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        self.before.clear();
        Ok(())
    }
}
