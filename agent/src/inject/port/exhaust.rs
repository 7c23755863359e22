//! No automatic port is left on a node.

use std::{io, ops::RangeInclusive, os::fd::OwnedFd};

use ringbreaker_scenarios::fault::ExhaustPorts;

use super::{
    bound_anywhere,
    range::{self, Ranges},
    refused_anywhere,
};
use crate::{
    inject::{Ground, InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
};

const FAULT: &str = "exhaust_ports";
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
    ranges: Ranges,
}

impl Exhausted {
    /// Takes nothing yet.
    pub(in crate::inject) fn new(
        fault: &ExhaustPorts,
        nodes: Targets,
        ground: &Ground,
        id: u32,
    ) -> Result<Exhausted, InjectError> {
        if fault.leave > MOST_LEFT {
            let reason = format!("leaving {} ports free exhausts nothing", fault.leave);
            return Err(InjectError::not_possible(FAULT, reason));
        }
        let ranges = Ranges::new(FAULT, id, nodes.clone(), ground);
        Ok(Exhausted { nodes, leave: fault.leave, held: Vec::new(), ranges })
    }

    fn range(&self) -> RangeInclusive<u16> {
        range::last(TAKEN + self.leave)
    }

    /// Whether the node has no more than `leave` ports to give.
    fn exhausted(&self, node: &VirtualNode) -> io::Result<bool> {
        let (range, leave) = (self.range(), self.leave);
        Targets::inside(node, move || {
            if leave == 0 {
                return refused_anywhere(0);
            }
            let mut free = 0;
            for port in range {
                if !refused_anywhere(port)? {
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
    let wanted = range.len() - usize::from(leave);
    let mut held = Vec::with_capacity(wanted);
    for port in range {
        if held.len() == wanted {
            break;
        }
        // A port that a socket of the job holds already is as taken as one that we hold.
        if let Ok(socket) = bound_anywhere(port) {
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
            self.ranges.set(node, &self.range())?;
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
        self.ranges.restore()?;
        for node in self.nodes.iter() {
            let still = self.exhausted(node).map_err(InjectError::step(FAULT, "try a port"))?;
            if still {
                let found = "no free port in the range that was restored";
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}
