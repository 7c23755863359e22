//! A node has few automatic ports.

use std::{io, net::SocketAddr, net::TcpListener};

use ringbreaker_scenarios::fault::NarrowPorts;

use super::range::{self, Ranges};
use crate::{
    inject::{Ground, InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
};

const FAULT: &str = "narrow_ports";

/// The node's automatic range has a few ports; none is taken. Sockets that are open already are not
/// touched.
///
/// Witness: in the node, a bind to port 0 is given one of those ports, or told "address in use" when
/// the job has them all.
pub(in crate::inject) struct Narrowed {
    nodes: Targets,
    to: u16,
    ranges: Ranges,
}

impl Narrowed {
    pub(in crate::inject) fn new(
        fault: &NarrowPorts,
        nodes: Targets,
        ground: &Ground,
        id: u32,
    ) -> Narrowed {
        let ranges = Ranges::new(FAULT, id, nodes.clone(), ground);
        Narrowed { nodes, to: fault.to, ranges }
    }

    /// What a bind to port 0 is given; none: nothing.
    fn given(node: &VirtualNode) -> io::Result<Option<u16>> {
        let bind = || TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr());
        match Targets::inside(node, bind) {
            Ok(address) => Ok(Some(SocketAddr::port(&address))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Injector for Narrowed {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            self.ranges.set(node, &range::last(self.to))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let range = range::last(self.to);
        let mut seen = Vec::new();
        for node in self.nodes.iter() {
            seen.push(match Self::given(node).ok()? {
                Some(port) if range.contains(&port) => format!(
                    "a bind to port 0 was given {port}, of {} to {}",
                    range.start(),
                    range.end()
                ),
                Some(_) => return None,
                None => "a bind to port 0 was told: address already in use".to_owned(),
            });
        }
        Some(seen.join(", "))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        self.ranges.restore()
    }
}
