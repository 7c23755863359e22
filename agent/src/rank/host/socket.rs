//! Sockets whose waits an abort can interrupt.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockopt, listen,
        setsockopt, socket, sockopt,
    },
};

/// Why a wait ended without what was waited for.
#[derive(Debug)]
pub(super) enum Broken {
    /// The communicator is being aborted.
    Halted,
    /// The peer's end is closed.
    Closed(SocketAddr),
    /// Another error of the kernel.
    Failed(Errno),
}

/// A connection. Remembers its peer, which the kernel forgets when the connection is reset.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Connection {
    fn new(stream: TcpStream, peer: SocketAddr) -> Result<Connection, Broken> {
        let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        set.map_err(|e| Broken::Failed(errno(&e)))?;
        Ok(Connection { stream, peer })
    }

    /// What an error of a transfer means: nothing yet, or a closed peer as NCCL counts it (the end
    /// of the stream, a reset, a broken pipe), or another failure.
    fn again(&self, error: &io::Error) -> Result<(), Broken> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Err(Broken::Closed(self.peer))
            }
            _ => Err(Broken::Failed(errno(error))),
        }
    }
}

/// Tells every wait to end. A byte that nobody reads keeps the other end readable for ever.
#[derive(Debug)]
pub(super) struct Halt {
    halted: AtomicBool,
    waiting: UnixStream,
    telling: UnixStream,
}

impl Halt {
    pub(super) fn new() -> io::Result<Halt> {
        let (waiting, telling) = UnixStream::pair()?;
        Ok(Halt { halted: AtomicBool::new(false), waiting, telling })
    }

    pub(super) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
        // The other end is ours and open: this cannot fail while anybody waits.
        let _told = (&self.telling).write_all(b"!");
    }

    pub(super) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Waits for as long as nobody halts, at most this long.
    pub(super) fn pause(&self, at_most: Duration) -> Result<(), Broken> {
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return if self.is_halted() { Err(Broken::Halted) } else { Ok(()) };
            }
            // Rounded up, so that the last part of a millisecond is waited for too.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
            self.poll(&mut [], timeout.unwrap_or(PollTimeout::MAX))?;
        }
    }

    /// Waits for ever: for what NCCL never notices.
    pub(super) fn for_ever(&self) -> Broken {
        loop {
            if let Err(broken) = self.poll(&mut [], PollTimeout::NONE) {
                return broken;
            }
        }
    }

    fn poll(
        &self,
        fds: &mut [(BorrowedFd<'_>, PollFlags)],
        timeout: PollTimeout,
    ) -> Result<(), Broken> {
        let mut all: Vec<PollFd<'_>> = vec![PollFd::new(self.waiting.as_fd(), PollFlags::POLLIN)];
        all.extend(fds.iter().map(|(fd, events)| PollFd::new(*fd, *events)));
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) if self.is_halted() => Err(Broken::Halted),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(Broken::Failed(error)),
        }
    }

    fn ready(&self, fd: BorrowedFd<'_>, events: PollFlags) -> Result<(), Broken> {
        self.poll(&mut [(fd, events)], PollTimeout::NONE)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// Listens as NCCL does: a fixed port with SO_REUSEADDR and SO_REUSEPORT, port 0 for a free one.
pub(super) fn listen_on(at: SocketAddrV4, reuse: bool) -> Result<TcpListener, Errno> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    if reuse {
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        setsockopt(&fd, sockopt::ReusePort, &true)?;
    }
    bind(fd.as_raw_fd(), &SockaddrIn::from(at))?;
    listen(&fd, Backlog::new(1024).expect("invariant: 1024 is a valid backlog"))?;
    Ok(TcpListener::from(fd))
}

/// One attempt to connect.
pub(super) fn connect_once(to: SocketAddrV4, halt: &Halt) -> Result<Connection, Broken> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).map_err(Broken::Failed)?;
    match connect(fd.as_raw_fd(), &SockaddrIn::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(error) => return Err(Broken::Failed(error)),
    }
    halt.ready(fd.as_fd(), PollFlags::POLLOUT)?;
    match getsockopt(&fd, sockopt::SocketError).map_err(Broken::Failed)? {
        0 => Connection::new(TcpStream::from(fd), SocketAddr::V4(to)),
        error => Err(Broken::Failed(Errno::from_raw(error))),
    }
}

/// Waits for somebody to connect. The listener must be non-blocking.
pub(super) fn accept(listener: &TcpListener, halt: &Halt) -> Result<Connection, Broken> {
    loop {
        halt.ready(listener.as_fd(), PollFlags::POLLIN)?;
        match listener.accept() {
            Ok((stream, peer)) => return Connection::new(stream, peer),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(Broken::Failed(errno(&e))),
        }
    }
}

/// Sends and receives at once, each in full; both sockets are non-blocking.
pub(super) fn exchange(
    out: Option<(&Connection, &[u8])>,
    into: Option<(&Connection, &mut [u8])>,
    halt: &Halt,
) -> Result<(), Broken> {
    let (mut out, mut into) = (out, into);
    loop {
        if let Some((connection, rest)) = &mut out {
            match (&connection.stream).write(rest) {
                Ok(sent) => *rest = &rest[sent..],
                Err(e) => connection.again(&e)?,
            }
        }
        if let Some((connection, rest)) = &mut into {
            match (&connection.stream).read(rest) {
                Ok(0) if !rest.is_empty() => return Err(Broken::Closed(connection.peer)),
                Ok(got) => *rest = &mut std::mem::take(rest)[got..],
                Err(e) => connection.again(&e)?,
            }
        }
        out = out.filter(|(_, rest)| !rest.is_empty());
        into = into.filter(|(_, rest)| !rest.is_empty());
        let mut waits = Vec::with_capacity(2);
        if let Some((connection, _)) = &out {
            waits.push((connection.stream.as_fd(), PollFlags::POLLOUT));
        }
        if let Some((connection, _)) = &into {
            waits.push((connection.stream.as_fd(), PollFlags::POLLIN));
        }
        if waits.is_empty() {
            return Ok(());
        }
        halt.poll(&mut waits, PollTimeout::NONE)?;
    }
}
