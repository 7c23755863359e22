//! How ranks find each other: a root listener whose address is the unique id. Every rank tells the
//! root where it listens; when all have, the root tells each where the others are.
//!
//! Nothing here has a deadline, as in NCCL: the root waits for all ranks, ranks wait for the root.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use nix::errno::Errno;
use ringbreaker_scenarios::case::Rank;

use super::{
    super::{backend::CallError, code},
    Settings,
    log::Log,
    socket::{Broken, Connection, Halt, connect_once, exchange, listen_on},
};

const ADDRESS: usize = 6;
const HELLO: usize = 8 + 4 + 4 + ADDRESS;
/// How long the root waits for a stranger's first bytes before it turns to the next.
const STRANGER: Duration = Duration::from_secs(2);

/// What the unique id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    root: SocketAddrV4,
    /// Tells this job's ranks from strangers.
    magic: u64,
}

impl Identity {
    /// The id that NCCL_COMM_ID stands for: the same on every rank.
    pub(super) fn fixed(root: SocketAddrV4) -> Identity {
        Identity { root, magic: u64::from_be_bytes(*b"ringroot") }
    }

    /// As the bytes that ranks exchange.
    pub fn to_bytes(self) -> Vec<u8> {
        [&address_bytes(self.root)[..], &self.magic.to_be_bytes()].concat()
    }

    /// From those bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Identity> {
        let (address, magic) = bytes.split_at_checked(ADDRESS)?;
        Some(Identity {
            root: address_from(address)?,
            magic: u64::from_be_bytes(magic.try_into().ok()?),
        })
    }
}

fn address_bytes(at: SocketAddrV4) -> [u8; ADDRESS] {
    let ([a, b, c, d], [hi, lo]) = (at.ip().octets(), at.port().to_be_bytes());
    [a, b, c, d, hi, lo]
}

fn address_from(bytes: &[u8]) -> Option<SocketAddrV4> {
    let [a, b, c, d, hi, lo] = *bytes else { return None };
    Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([hi, lo])))
}

/// Starts a root. Its thread lives as long as the process, as NCCL's does.
pub(super) fn serve(at: SocketAddrV4, fixed: bool) -> Result<Identity, CallError> {
    let refused =
        |e: Errno| CallError::new(code::SYSTEM_ERROR, format!("Call to bind failed: {}", e.desc()));
    let listener = listen_on(at, fixed).map_err(refused)?;
    let identity = if fixed {
        Identity::fixed(at)
    } else {
        let port = listener.local_addr().map_err(|_| refused(Errno::EINVAL))?.port();
        // The port and the process tell concurrent jobs of one machine apart.
        let magic = u64::from(std::process::id()) << 16 | u64::from(port);
        Identity { root: SocketAddrV4::new(*at.ip(), port), magic }
    };
    thread::Builder::new()
        .name("host-root".to_owned())
        .spawn(move || collect(&listener, identity.magic))
        .map_err(|e| {
            CallError::new(code::SYSTEM_ERROR, format!("Call to pthread_create failed: {e}"))
        })?;
    Ok(identity)
}

/// Waits for every rank, then answers all. A stranger, or one who leaves early, is dropped and the
/// waiting goes on.
fn collect(listener: &TcpListener, magic: u64) {
    let mut arrived: Vec<Option<(TcpStream, [u8; ADDRESS])>> = Vec::new();
    while let Ok((mut stream, _)) = listener.accept() {
        let Some((rank, world, address)) = hello(&mut stream, magic) else { continue };
        if arrived.is_empty() {
            arrived.resize_with(world as usize, || None);
        }
        match arrived.get_mut(rank as usize) {
            Some(slot @ None) => *slot = Some((stream, address)),
            // A rank out of range or twice: NCCL's root gives up, and the others keep waiting.
            _ => return,
        }
        if arrived.iter().all(Option::is_some) {
            let present = arrived.iter().flatten().all(|(stream, _)| is_there(stream));
            if !present {
                // Recorded: a rank that dies during creation is not noticed, and nobody gets ready.
                loop {
                    thread::park();
                }
            }
            let table: Vec<u8> = arrived.iter().flatten().flat_map(|(_, a)| *a).collect();
            for (stream, _) in arrived.iter_mut().flatten() {
                // One who is dead by now does not keep the others from their answer.
                let _sent = stream.write_all(&table);
            }
            return;
        }
    }
}

/// Whether a rank that waits for its answer still does: its end is not closed.
fn is_there(stream: &TcpStream) -> bool {
    let silent = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock;
    stream.set_nonblocking(true).is_ok_and(|()| {
        let waits = stream.peek(&mut [0]).map_or_else(silent, |bytes| bytes > 0);
        waits && stream.set_nonblocking(false).is_ok()
    })
}

fn hello(stream: &mut TcpStream, magic: u64) -> Option<(Rank, u32, [u8; ADDRESS])> {
    let mut bytes = [0; HELLO];
    stream.set_read_timeout(Some(STRANGER)).ok()?;
    stream.read_exact(&mut bytes).ok()?;
    let number =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (bytes[..8] == magic.to_be_bytes()).then(|| {
        let mut address = [0; ADDRESS];
        address.copy_from_slice(&bytes[16..]);
        (number(8), number(12), address)
    })
}

/// Tells the root where this rank listens, and waits for where all ranks are.
pub(super) fn join(
    identity: Identity,
    rank: Rank,
    world: u32,
    listening: SocketAddrV4,
    settings: &Settings,
    halt: &Halt,
    log: &Log,
) -> Result<Vec<SocketAddrV4>, Refusal> {
    let stream = connect(identity.root, settings, halt, log)?;
    let mut hello = identity.magic.to_be_bytes().to_vec();
    hello.extend(rank.to_be_bytes());
    hello.extend(world.to_be_bytes());
    hello.extend(address_bytes(listening));
    let mut table = vec![0; world as usize * ADDRESS];
    match exchange(Some((&stream, &hello)), Some((&stream, &mut table)), halt) {
        Ok(()) => Ok(table.chunks_exact(ADDRESS).filter_map(address_from).collect()),
        // A root that dies while ranks wait for its answer was recorded to go unnoticed.
        Err(Broken::Closed(_)) => Err(Refusal::from(halt.for_ever())),
        Err(broken) => Err(Refusal::from(broken)),
    }
}

/// Why a connection did not come about.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The communicator is being aborted.
    Halted,
    /// An error to report.
    Error(CallError),
}

impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Refusal {
        match broken {
            Broken::Halted => Refusal::Halted,
            Broken::Closed(peer) => Refusal::Error(closed(peer)),
            Broken::Failed(error) => Refusal::Error(CallError::new(
                code::SYSTEM_ERROR,
                format!("Call to connect failed : {}", error.desc()),
            )),
        }
    }
}

/// The error of a peer whose end is closed, in NCCL's words.
fn closed(peer: SocketAddr) -> CallError {
    let peer = format!("{}<{}>", peer.ip(), peer.port());
    CallError::new(
        code::REMOTE_ERROR,
        format!("socketProgress: Connection closed by remote peer {peer}"),
    )
}

/// Connects with NCCL's retries (2.24 on): the k-th retry sleeps k times the base, and the errors
/// of somebody who is not there yet count.
pub(super) fn connect(
    to: SocketAddrV4,
    settings: &Settings,
    halt: &Halt,
    log: &Log,
) -> Result<Connection, Refusal> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let error = match connect_once(to, halt) {
            Ok(stream) => return Ok(stream),
            Err(Broken::Failed(error)) => error,
            Err(broken) => return Err(Refusal::from(broken)),
        };
        let retryable = matches!(
            error,
            Errno::ECONNREFUSED
                | Errno::ETIMEDOUT
                | Errno::EHOSTUNREACH
                | Errno::EAGAIN
                | Errno::EINTR
        );
        if !retryable {
            return Err(Refusal::from(Broken::Failed(error)));
        }
        if attempt > settings.retries {
            let message = format!(
                "connect to {}<{}> failed : {}: exceeded error retry count after {attempt} attempts",
                to.ip(),
                to.port(),
                error.desc()
            );
            return Err(Refusal::Error(CallError::new(code::REMOTE_ERROR, message)));
        }
        let pause = settings.retry_sleep * u32::try_from(attempt).unwrap_or(u32::MAX);
        log.info(&format!("retrying ({attempt}/{}) after sleep for {pause:?}", settings.retries));
        halt.pause(pause).map_err(Refusal::from)?;
    }
}
