//! Somebody else accepts the job's connections and never says a word.

use std::{io, net::TcpListener, os::fd::AsFd};

use ringbreaker_scenarios::fault::MuteListener;

use super::listener;
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    sys::{
        reuseport,
        sockets::{self, Listening},
    },
};

const FAULT: &str = "mute_listener";

/// A listener with SO_REUSEPORT on the node's own address, as NCCL's root has one (NCCL source
/// 2.30.7, src/misc/socket.cc): the job can bind as well, and is not told of the other. Of such a
/// group the kernel chooses one for each connection; a filter makes it choose the first, which is
/// ours. The kernel completes the connection, and nobody ever takes it out of the queue.
///
/// Witness: the kernel's table of sockets shows connections that wait at our listener.
pub(in crate::inject) struct Mute {
    nodes: Targets,
    port: u16,
    listeners: Vec<TcpListener>,
}

impl Mute {
    /// Listens to nothing yet.
    pub(in crate::inject) fn new(
        fault: &MuteListener,
        nodes: Targets,
        rendezvous: Option<u16>,
    ) -> Result<Mute, InjectError> {
        let reason = "name a port in the fault, or give the cluster a rendezvous_port";
        let port = fault.port.or(rendezvous);
        let port = port.ok_or_else(|| InjectError::not_possible(FAULT, reason))?;
        Ok(Mute { nodes, port, listeners: Vec::new() })
    }

    /// How many connections wait at our listeners.
    fn waiting(&self) -> io::Result<u32> {
        let mut ours = Vec::new();
        for listener in &self.listeners {
            ours.push(sockets::inode(listener.as_fd())?);
        }
        let mut waiting = 0;
        for node in self.nodes.iter() {
            let listening = Targets::inside(node, sockets::listening)?;
            let ours = listening.iter().filter(|socket| ours.contains(&socket.inode));
            waiting += ours.map(|Listening { waiting, .. }| waiting).sum::<u32>();
        }
        Ok(waiting)
    }
}

impl Injector for Mute {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let port = self.port;
        for node in self.nodes.iter() {
            let own = node.address();
            let listener = Targets::inside(node, || reuseport::first_of_group(own, port))
                .map_err(InjectError::step(FAULT, format!("share port {port}")))?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let waiting = self.waiting().ok().filter(|waiting| *waiting > 0)?;
        let port = self.port;
        Some(format!("{waiting} connections to port {port} were accepted and wait for an answer"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        listener::close(FAULT, &self.nodes, &mut self.listeners)
    }
}
