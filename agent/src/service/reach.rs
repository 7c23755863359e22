//! Where the controller is: loopback only, until mutual TLS exists.

use std::{fmt, net::SocketAddr, time::Duration};

use tonic::transport::{Channel, Endpoint, Error};

use super::ServiceError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How often the transport asks whether the other end is there, and how long it waits.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// An address of this machine that no other reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(SocketAddr);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Understands an address and refuses one that is not loopback. Looks no name up: `localhost` is
/// 127.0.0.1.
pub(super) fn loopback(text: &str) -> Result<Address, ServiceError> {
    let given = text.to_owned();
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => given.clone(),
    };
    match numeric.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(Address(address)),
        Ok(_) => Err(ServiceError::NotLoopback { given }),
        // A name with a port would have to be looked up, and could mean any machine.
        Err(_) if named(text) => Err(ServiceError::NotLoopback { given }),
        Err(_) => Err(ServiceError::Address { given }),
    }
}

fn named(text: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.rsplit_once(':').is_some_and(|(name, port)| {
        port.parse::<u16>().is_ok()
            && name.chars().all(of_a_name)
            && name.chars().any(|c| c.is_ascii_alphabetic())
    })
}

/// Connects.
pub(super) async fn connect(address: &Address) -> Result<Channel, Error> {
    Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .connect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_taken() {
        for (text, want) in [
            ("127.0.0.1:7447", "127.0.0.1:7447"),
            ("localhost:7447", "127.0.0.1:7447"),
            ("127.1.2.3:1", "127.1.2.3:1"),
            ("[::1]:7447", "[::1]:7447"),
        ] {
            assert_eq!(loopback(text).unwrap().to_string(), want);
        }
    }

    #[test]
    fn addresses_that_others_reach_are_refused_with_the_reason() {
        for text in ["10.0.0.1:7447", "0.0.0.0:7447", "[::]:7447", "node-1.example:7447"] {
            let refusal = loopback(text).unwrap_err();
            assert!(matches!(refusal, ServiceError::NotLoopback { .. }), "{text}: {refusal}");
            assert!(refusal.to_string().contains("mutual TLS"));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in ["", "7447", "127.0.0.1", "localhost", "localhost:port", "http://127.0.0.1:1"] {
            let refusal = loopback(text).unwrap_err();
            assert!(matches!(refusal, ServiceError::Address { .. }), "{text}: {refusal}");
            assert!(refusal.to_string().contains("127.0.0.1:7447"));
        }
    }
}
