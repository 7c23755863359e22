//! Listeners that share a port, and who of them gets the connections (socket(7), SO_REUSEPORT).

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    os::fd::AsRawFd,
};

use nix::{
    libc,
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket,
        sockopt,
    },
};

/// A listener on an address that others may bind too (with SO_REUSEPORT, as the same user): whoever
/// comes later joins the group, and every connection goes to this one. Acts in the caller's network
/// namespace.
///
/// # Errors
/// What the kernel says, as when somebody holds the port who does not share it.
pub fn first_of_group(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    setsockopt(&made, sockopt::ReusePort, &true)?;
    bind(made.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, port)))?;
    listen(&made, Backlog::MAXCONN)?;
    choose_first(made.as_raw_fd())?;
    Ok(TcpListener::from(made))
}

/// The group's choice becomes its first member: a filter of one instruction that answers 0.
fn choose_first(group: i32) -> io::Result<()> {
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [libc::sock_filter { code: ANSWER, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let size = libc::socklen_t::try_from(size_of_val(&program)).map_err(io::Error::other)?;
    // SAFETY: the option takes a sock_fprog, which points to instructions that outlive the call; the
    // kernel copies both.
    let answer = unsafe {
        libc::setsockopt(
            group,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn every_connection_goes_to_the_first_of_the_group() {
        let first = first_of_group(Ipv4Addr::LOCALHOST, 0).unwrap();
        let address = first.local_addr().unwrap();
        let later = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let later = later.unwrap();
        setsockopt(&later, sockopt::ReusePort, &true).unwrap();
        let at = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, address.port()));
        bind(later.as_raw_fd(), &at).unwrap();
        listen(&later, Backlog::MAXCONN).unwrap();
        let later = TcpListener::from(later);
        later.set_nonblocking(true).unwrap();
        let callers: Vec<TcpStream> =
            (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(later.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        callers.iter().for_each(|_| drop(first.accept().unwrap()));
    }
}
