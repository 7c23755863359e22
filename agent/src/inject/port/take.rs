//! The port that the job wants is somebody else's.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    os::fd::AsFd,
};

use ringbreaker_scenarios::fault::TakePort;

use super::refused;
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    sys::sockets,
};

const FAULT: &str = "take_port";

/// A listener without SO_REUSEPORT on every address of each node.
///
/// Witness: a bind to the node's own address and port, by another socket, is told "address in use".
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
        let port =
            fault.port.or(rendezvous).ok_or_else(|| InjectError::not_possible(FAULT, reason))?;
        Ok(Taken { nodes, port, listeners: Vec::new() })
    }

    fn step(&self, step: &str) -> impl FnOnce(io::Error) -> InjectError + use<> {
        InjectError::step(FAULT, format!("{step} port {}", self.port))
    }
}

impl Injector for Taken {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let port = self.port;
        for node in self.nodes.iter() {
            let bind = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
            let listener = Targets::inside(node, bind).map_err(self.step("take"))?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let port = self.port;
        for node in self.nodes.iter() {
            let address = node.address();
            let taken = Targets::inside(node, || refused(address, port)).ok()?;
            if !taken {
                return None;
            }
        }
        Some(format!("a bind to port {port} was told: address already in use"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        let mut ours = Vec::new();
        for listener in self.listeners.drain(..) {
            let inode = sockets::inode(listener.as_fd());
            ours.push(inode.map_err(InjectError::step(FAULT, "look at our listener"))?);
        }
        let port = self.port;
        for node in self.nodes.iter() {
            // The job may have taken the port the moment it became free; that is no fault of ours.
            let listening =
                Targets::inside(node, sockets::listening).map_err(self.step("look at"))?;
            if listening.iter().any(|socket| socket.port == port && ours.contains(&socket.inode)) {
                let found = format!("our listener on port {port}");
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}
