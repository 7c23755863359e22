//! Two ends and what is sent between them.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use ringbreaker_scenarios::units::Nanos;

use super::RoundTrip;
use crate::sys::namespace::Namespaces;

/// Size of a write; as large as a GSO packet gets, and a few of them.
const CHUNK: usize = 256 << 10;
/// Payload of a ping.
const PING: usize = 64;
/// A reply that does not come within this is an error, not a slow path.
const PATIENCE: Duration = Duration::from_secs(5);

/// Two namespaces with an address each.
pub(super) struct Path<'a> {
    near: &'a Namespaces,
    far: &'a Namespaces,
    near_address: Ipv4Addr,
    far_address: Ipv4Addr,
}

impl<'a> Path<'a> {
    pub(super) fn new(
        near: &'a Namespaces,
        far: &'a Namespaces,
        near_address: Ipv4Addr,
        far_address: Ipv4Addr,
    ) -> Path<'a> {
        Path { near, far, near_address, far_address }
    }

    /// Sends one TCP stream for this long; bits of payload a second, as the receiver sees it.
    pub(super) fn stream(&self, lasts: Duration) -> io::Result<f64> {
        let listener = self.far.inside(|| TcpListener::bind((self.far_address, 0)))??;
        let to = listener.local_addr()?;
        let near = self.near.inside(|| TcpStream::connect_timeout(&to, PATIENCE))??;
        let (far, _) = listener.accept()?;
        far.set_read_timeout(Some(PATIENCE))?;
        near.set_write_timeout(Some(PATIENCE))?;
        thread::scope(|scope| {
            let sender = scope.spawn(move || send(near, lasts));
            let rate = receive(far);
            sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            rate
        })
    }

    /// Sends datagrams back and forth, one at a time.
    pub(super) fn ping(&self, count: u32, pause: Duration) -> io::Result<RoundTrip> {
        let near = self.near.inside(|| UdpSocket::bind((self.near_address, 0)))??;
        let far = self.far.inside(|| UdpSocket::bind((self.far_address, 0)))??;
        near.connect(far.local_addr()?)?;
        far.connect(near.local_addr()?)?;
        for end in [&near, &far] {
            end.set_read_timeout(Some(PATIENCE))?;
        }
        thread::scope(|scope| {
            let echo = scope.spawn(|| echo(&far, count));
            let mut took = (0..count)
                .map(|_| {
                    thread::sleep(pause);
                    round_trip(&near)
                })
                .collect::<io::Result<Vec<Nanos>>>()?;
            echo.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(quantiles(&mut took))
        })
    }
}

fn send(mut stream: TcpStream, lasts: Duration) -> io::Result<()> {
    let chunk = vec![7; CHUNK];
    let begin = Instant::now();
    while begin.elapsed() < lasts {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

fn receive(mut stream: TcpStream) -> io::Result<f64> {
    let mut chunk = vec![0; CHUNK];
    let begin = Instant::now();
    let mut bytes = 0;
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()),
            length => bytes += length as u64,
        }
    }
}

fn echo(socket: &UdpSocket, count: u32) -> io::Result<()> {
    let mut buffer = [0; PING];
    for _ in 0..count {
        let length = socket.recv(&mut buffer)?;
        socket.send(&buffer[..length])?;
    }
    Ok(())
}

fn round_trip(socket: &UdpSocket) -> io::Result<Nanos> {
    let begin = Instant::now();
    socket.send(&[1; PING])?;
    socket.recv(&mut [0; PING])?;
    Ok(begin.elapsed().into())
}

/// Nearest-rank quantiles; nothing measured is nothing.
fn quantiles(took: &mut [Nanos]) -> RoundTrip {
    took.sort_unstable();
    let at = |percent: usize| {
        let rank = (took.len() * percent).div_ceil(100).max(1);
        took.get(rank - 1).copied().unwrap_or_default()
    };
    RoundTrip { p50: at(50), p99: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let mut took: Vec<Nanos> = (1..=200).rev().map(Nanos).collect();
        assert_eq!(quantiles(&mut took), RoundTrip { p50: Nanos(100), p99: Nanos(198) });
        assert_eq!(quantiles(&mut [Nanos(5)]), RoundTrip { p50: Nanos(5), p99: Nanos(5) });
        assert_eq!(quantiles(&mut []), RoundTrip { p50: Nanos(0), p99: Nanos(0) });
    }
}
