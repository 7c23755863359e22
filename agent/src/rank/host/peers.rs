//! The connections of a communicator, made when an operation first needs them.
//!
//! Each pair of ranks has up to two, one a direction: whoever sends connects. Nothing that goes
//! wrong while connecting is noticed by anybody but the kernel's refusal of a connection: recorded
//! of NCCL 2.28, where the death of a peer inside the first operation stayed silent.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddrV4, TcpListener},
};

use ringbreaker_scenarios::case::Rank;

use super::{
    Settings,
    bootstrap::{self, Refusal},
    log::Log,
    socket::{Broken, Connection, Halt, accept, exchange},
};

const ACCEPTED: u8 = 1;

/// Connections by peer.
#[derive(Debug)]
pub(super) struct Peers {
    rank: Rank,
    listener: TcpListener,
    addresses: Vec<SocketAddrV4>,
    sending: BTreeMap<Rank, Connection>,
    receiving: BTreeMap<Rank, Connection>,
}

impl Peers {
    pub(super) fn new(rank: Rank, listener: TcpListener, addresses: Vec<SocketAddrV4>) -> Peers {
        Peers { rank, listener, addresses, sending: BTreeMap::new(), receiving: BTreeMap::new() }
    }

    /// The connection to send to a peer; it must have been asked for.
    pub(super) fn to(&self, peer: Rank) -> &Connection {
        self.sending.get(&peer).expect("invariant: an operation connects before it sends")
    }

    /// The connection to receive from a peer; it must have been asked for.
    pub(super) fn from(&self, peer: Rank) -> &Connection {
        self.receiving.get(&peer).expect("invariant: an operation connects before it receives")
    }

    /// Whether all of these connections exist.
    pub(super) fn has(&self, to: &BTreeSet<Rank>, from: &BTreeSet<Rank>) -> bool {
        to.iter().all(|peer| self.sending.contains_key(peer))
            && from.iter().all(|peer| self.receiving.contains_key(peer))
    }

    /// Makes the connections that are missing. Everybody connects before anybody accepts, so that
    /// a ring cannot wait for itself.
    pub(super) fn connect(
        &mut self,
        to: &BTreeSet<Rank>,
        from: &BTreeSet<Rank>,
        settings: &Settings,
        halt: &Halt,
        log: &Log,
    ) -> Result<(), Refusal> {
        let mut fresh = Vec::new();
        for peer in to {
            if self.sending.contains_key(peer) {
                continue;
            }
            let stream = bootstrap::connect(self.addresses[*peer as usize], settings, halt, log)?;
            silent(exchange(Some((&stream, &self.rank.to_be_bytes())), None, halt), halt)?;
            log.info(&format!("Channel 00/0 : {} -> {peer} via NET/Socket", self.rank));
            self.sending.insert(*peer, stream);
            fresh.push(*peer);
        }
        while !from.iter().all(|peer| self.receiving.contains_key(peer)) {
            let stream = accept(&self.listener, halt).map_err(Refusal::from)?;
            let mut peer = [0; 4];
            match exchange(None, Some((&stream, &mut peer)), halt) {
                Ok(()) => {}
                Err(Broken::Halted) => return Err(Refusal::Halted),
                // One who leaves before he has said who he is.
                Err(_) => continue,
            }
            silent(exchange(Some((&stream, &[ACCEPTED])), None, halt), halt)?;
            self.receiving.insert(u32::from_be_bytes(peer), stream);
        }
        for peer in fresh {
            let mut accepted = [0];
            silent(exchange(None, Some((self.to(peer), &mut accepted)), halt), halt)?;
        }
        Ok(())
    }
}

/// While connecting, a peer that goes away is waited for, for ever.
fn silent(result: Result<(), Broken>, halt: &Halt) -> Result<(), Refusal> {
    match result {
        Err(Broken::Closed(_)) => Err(Refusal::from(halt.for_ever())),
        other => other.map_err(Refusal::from),
    }
}
