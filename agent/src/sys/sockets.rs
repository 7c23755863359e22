//! TCP sockets of the calling thread's network namespace.

use std::{fs, io, os::fd::BorrowedFd};

use nix::sys::stat::fstat;

/// State of a listening socket in /proc/net/tcp (TCP_LISTEN in the kernel's net/tcp_states.h).
const LISTEN: &str = "0A";

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The local port.
    pub port: u16,
    /// Number of the socket; descriptors of it show the same.
    pub inode: u64,
    /// How many connections wait to be taken over by its owner.
    pub waiting: u32,
}

/// The listening TCP sockets of this network namespace, IPv4 and IPv6.
///
/// # Errors
/// When /proc cannot be read.
pub fn listening() -> io::Result<Vec<Listening>> {
    let mut found = Vec::new();
    // Not /proc/net: that is the namespace of the process's first thread.
    for table in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/thread-self/net/{table}")) {
            Ok(text) => found.extend(text.lines().skip(1).filter_map(parse)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The number of the socket behind a descriptor.
///
/// # Errors
/// What the kernel says.
pub fn inode(socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(fstat(socket)?.st_ino)
}

/// A line of /proc/net/tcp (proc_pid_net(5)): number, local address, remote address, state, lengths of
/// the queues to send and to receive, ... Of a listener the latter counts connections.
fn parse(line: &str) -> Option<Listening> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    let waiting = u32::from_str_radix(waiting, 16).ok()?;
    (*state == LISTEN).then_some(Listening { port, inode: inode.parse().ok()?, waiting })
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        os::fd::AsFd,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_listener_of_this_process_is_found_with_its_own_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wanted = Listening {
            port: listener.local_addr().unwrap().port(),
            inode: inode(listener.as_fd()).unwrap(),
            waiting: 1,
        };
        let _caller = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // A caller may be through before the kernel has put it into the queue.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !listening().unwrap().contains(&wanted) {
            assert!(Instant::now() < deadline, "{:?}", listening());
        }
        drop(listener);
        assert!(!listening().unwrap().contains(&wanted));
    }
}
