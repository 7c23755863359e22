//! Faults of TCP ports, inside the network namespaces of nodes.
//!
//! Both hold sockets of the agent that were made inside a node's namespace. Sockets and namespace
//! vanish with the agent, so neither fault needs a journal entry. IPv4 alone: nodes have no other
//! address that a job would use.

mod exhaust;
mod take;

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket},
};

pub(super) use self::{exhaust::Exhausted, take::Taken};

/// A socket bound to an address, neither listening nor sharing it: whoever else wants the port is
/// told EADDRINUSE. Port 0 asks the kernel for any. Acts in the caller's network namespace.
fn bound(address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, port)))?;
    Ok(socket)
}

/// Whether the kernel refuses this bind because the port, or every port, is taken.
fn refused(address: Ipv4Addr, port: u16) -> io::Result<bool> {
    match bound(address, port) {
        Ok(_) => Ok(false),
        Err(error) if error.raw_os_error() == Some(Errno::EADDRINUSE as i32) => Ok(true),
        Err(error) => Err(error),
    }
}
