//! Faults of TCP ports, inside the network namespaces of nodes.
//!
//! All hold sockets of the agent that were made inside a node's namespace, or change a sysctl of that
//! namespace. Sockets and namespace vanish with the agent, so no fault here needs a journal entry.

mod exhaust;
mod listener;
mod mute;
mod narrow;
mod range;
mod take;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
    },
};

pub(super) use self::{exhaust::Exhausted, mute::Mute, narrow::Narrowed, take::Taken};

/// A socket bound to an address, neither listening nor sharing it: whoever else wants the port is
/// told EADDRINUSE. Port 0 asks the kernel for any. Acts in the caller's network namespace.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = socket(family, SockType::Stream, flags, None)?;
    if family == AddressFamily::Inet6 {
        // IPv4 has a socket of its own, with an error of its own.
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket)
}

/// The same on every IPv4 address.
fn bound_anywhere(port: u16) -> io::Result<OwnedFd> {
    bound(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())
}

/// Whether the kernel refuses this bind because the port, or every port, is taken.
fn refused(address: SocketAddr) -> io::Result<bool> {
    match bound(address) {
        Ok(_) => Ok(false),
        Err(error) if error.raw_os_error() == Some(Errno::EADDRINUSE as i32) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The same on every IPv4 address.
fn refused_anywhere(port: u16) -> io::Result<bool> {
    refused(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())
}

/// Whether a kernel without IPv6 said this.
fn no_ipv6(error: &io::Error) -> bool {
    let none = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL];
    none.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}
