//! Closing listeners of ours, and seeing to it that they are closed.

use std::{net::TcpListener, os::fd::AsFd};

use crate::{
    inject::{InjectError, ground::Targets},
    sys::sockets,
};

/// Closes the listeners and looks for them. The job may have taken the port the moment it became
/// free; that is no fault of ours.
pub(super) fn close(
    fault: &'static str,
    nodes: &Targets,
    listeners: &mut Vec<TcpListener>,
) -> Result<(), InjectError> {
    let mut ours = Vec::new();
    for listener in listeners.drain(..) {
        let inode = sockets::inode(listener.as_fd());
        ours.push(inode.map_err(InjectError::step(fault, "look at our listener"))?);
    }
    for node in nodes.iter() {
        let listening = Targets::inside(node, sockets::listening)
            .map_err(InjectError::step(fault, "look at the listening sockets"))?;
        if let Some(left) = listening.iter().find(|socket| ours.contains(&socket.inode)) {
            let found = format!("our listener on port {}", left.port);
            return Err(InjectError::still_there(fault, found));
        }
    }
    Ok(())
}
