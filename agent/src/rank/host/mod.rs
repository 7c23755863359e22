//! The host stand-in: rehearses the harness, says nothing about anybody's NCCL.
//!
//! It follows what real NCCL was recorded to do (2.28.3 and 2.28.9, sockets, one H200) where that shows from
//! outside: which sockets and /dev/shm files exist when, what is noticed and what is not, how an
//! abort travels. A conformance test holds it to the recordings.
//!
//! - [`bootstrap`]: the unique id, the root that collects addresses, retries;
//! - [`interface`]: which network interface is used;
//! - `peers`: the lazily made connections;  `ring`: the operations over them;
//! - `communicator`: the two threads behind a communicator, and abort;
//! - `shm`: the segment that NCCL allocates;  `socket`: sockets that an abort can interrupt;
//! - `log`: lines in NCCL's manner, marked as ours.

pub mod bootstrap;
mod communicator;
pub mod interface;
mod log;
mod peers;
mod ring;
mod shm;
mod socket;

use std::{collections::BTreeMap, env, net::SocketAddrV4, sync::Arc, time::Duration};

use ringbreaker_scenarios::case::Rank;

use self::{bootstrap::Identity, communicator::HostCommunicator, log::Log};
use super::{
    backend::{CallError, Communicator, Library},
    code,
};

/// The settings that the stand-in reads from its environment, with NCCL's meaning and defaults
/// (`ringbreaker_scenarios::settings::host_reads` lists them).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    interface: Option<String>,
    comm_id: Option<String>,
    /// NCCL_SOCKET_RETRY_CNT, default 34 (NCCL 2.24 on).
    retries: u64,
    /// NCCL_SOCKET_RETRY_SLEEP_MSEC, default 100 (NCCL 2.24 on).
    retry_sleep: Duration,
    /// Whether shared memory is taken at communicator creation instead of in the first operation:
    /// NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0 (measured on 2.28.3 and 2.28.9).
    shm_at_init: bool,
}

impl Settings {
    fn from_env() -> Settings {
        let text = |name: &str| env::var(name).ok().filter(|v| !v.is_empty());
        let number = |name: &str, default| text(name).map_or(default, |v| integer(&v));
        Settings {
            interface: text("NCCL_SOCKET_IFNAME"),
            comm_id: text("NCCL_COMM_ID"),
            retries: number("NCCL_SOCKET_RETRY_CNT", 34),
            retry_sleep: Duration::from_millis(number("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100)),
            shm_at_init: number("NCCL_CUMEM_ENABLE", 1) == 0
                && number("NCCL_CUMEM_HOST_ENABLE", 1) == 0,
        }
    }
}

/// A number as NCCL reads it, through strtoll: what follows the digits is ignored, and what has
/// none is nothing. Below nothing counts as nothing here.
fn integer(text: &str) -> u64 {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The stand-in as a library.
#[derive(Debug)]
pub struct HostLibrary {
    settings: Settings,
    log: Arc<Log>,
}

impl HostLibrary {
    /// Reads the environment, once, as NCCL does.
    pub fn from_env() -> HostLibrary {
        HostLibrary { settings: Settings::from_env(), log: Arc::new(Log::from_env()) }
    }

    fn interface(&self) -> Result<std::net::Ipv4Addr, CallError> {
        let wanted = self.settings.interface.as_deref();
        interface::choose(&interface::list()?, wanted).ok_or_else(|| {
            CallError::new(code::INVALID_USAGE, "Bootstrap : no socket interface found")
        })
    }

    fn fixed(&self) -> Result<Option<SocketAddrV4>, CallError> {
        let Some(text) = self.settings.comm_id.as_deref() else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let message = format!("Invalid NCCL_COMM_ID {text}, use <ipv4>:<port>");
            CallError::new(code::INVALID_ARGUMENT, message)
        })
    }
}

impl Library for HostLibrary {
    fn versions(&self) -> BTreeMap<String, String> {
        let version = concat!(env!("CARGO_PKG_VERSION"), " (host stand-in)");
        BTreeMap::from([("ringbreaker-host".to_owned(), version.to_owned())])
    }

    fn make_id(&self) -> Result<Vec<u8>, CallError> {
        // With NCCL_COMM_ID the id only names the place; rank 0 listens there when it initialises.
        let identity = match self.fixed()? {
            Some(at) => Identity::fixed(at),
            None => bootstrap::serve(SocketAddrV4::new(self.interface()?, 0), false)?,
        };
        Ok(identity.to_bytes())
    }

    fn begin_init(
        &self,
        id: &[u8],
        rank: Rank,
        world: u32,
    ) -> Result<Arc<dyn Communicator>, CallError> {
        let identity = Identity::from_bytes(id)
            .ok_or_else(|| CallError::new(code::INVALID_ARGUMENT, "invalid unique id"))?;
        if let (Some(at), 0) = (self.fixed()?, rank) {
            bootstrap::serve(at, true).inspect_err(|e| self.log.warn(&e.message))?;
        }
        let local = self.interface()?;
        let place = communicator::Place { rank, world, local, identity };
        Ok(Arc::new(HostCommunicator::begin(place, self.settings.clone(), Arc::clone(&self.log))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtoll_reads_them() {
        for (text, want) in [("34", 34), ("10s", 10), ("true", 0), (" 7", 7), ("-1", 0)] {
            assert_eq!(integer(text), want, "{text:?}");
        }
    }
}
