//! The port that the job wants is somebody else's.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use nix::sys::socket::{Backlog, listen};
use ringbreaker_scenarios::fault::TakePort;

use super::{bound, listener, no_ipv6, refused};
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
};

const FAULT: &str = "take_port";

/// A listener without SO_REUSEPORT on every address of each node, IPv4 and IPv6.
///
/// Witness: a bind to the node's own address and port, by another socket, is told "address in use";
/// so is one to the IPv6 loopback, where the kernel has IPv6.
pub(in crate::inject) struct Taken {
    nodes: Targets,
    port: u16,
    listeners: Vec<TcpListener>,
}

impl Taken {
    /// Takes nothing yet.
    pub(in crate::inject) fn new(
        fault: &TakePort,
        nodes: Targets,
        rendezvous: Option<u16>,
    ) -> Result<Taken, InjectError> {
        let reason = "name a port in the fault, or give the cluster a rendezvous_port";
        let port = fault.number().or(rendezvous);
        let port = port.ok_or_else(|| InjectError::not_possible(FAULT, reason))?;
        Ok(Taken { nodes, port, listeners: Vec::new() })
    }
}

/// Acts in the caller's network namespace.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address)?;
    listen(&socket, Backlog::MAXCONN)?;
    Ok(TcpListener::from(socket))
}

/// On every address there is; the second family may be missing.
fn listen_everywhere(port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = vec![listen_on((Ipv4Addr::UNSPECIFIED, port).into())?];
    match listen_on((Ipv6Addr::UNSPECIFIED, port).into()) {
        Ok(listener) => listeners.push(listener),
        Err(error) if no_ipv6(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(listeners)
}

/// Whether IPv4, and IPv6 where there is such a thing, refuse the port: how many families do.
fn families_refused(own: Ipv4Addr, port: u16) -> io::Result<Option<usize>> {
    if !refused((own, port).into())? {
        return Ok(None);
    }
    match refused((Ipv6Addr::UNSPECIFIED, port).into()) {
        Ok(true) => Ok(Some(2)),
        Ok(false) => Ok(None),
        Err(error) if no_ipv6(&error) => Ok(Some(1)),
        Err(error) => Err(error),
    }
}

impl Injector for Taken {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let port = self.port;
        for node in self.nodes.iter() {
            let listeners = Targets::inside(node, || listen_everywhere(port))
                .map_err(InjectError::step(FAULT, format!("take port {port}")))?;
            self.listeners.extend(listeners);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let port = self.port;
        let mut fewest = 2;
        for node in self.nodes.iter() {
            let own = node.address();
            let families = Targets::inside(node, || families_refused(own, port)).ok()??;
            fewest = fewest.min(families);
        }
        let families = if fewest == 2 { "IPv4 and IPv6" } else { "IPv4" };
        Some(format!("a bind to port {port} was told over {families}: address already in use"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        listener::close(FAULT, &self.nodes, &mut self.listeners)
    }
}
