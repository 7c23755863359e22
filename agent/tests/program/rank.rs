//! A rank that holds memory, beats once a millisecond on standard output, and sends a packet to a
//! neighbour at each beat.

use std::{
    io::{self, Write},
    net::UdpSocket,
    thread,
    time::Duration,
};

/// Runs until it is ended; the exit code says that it could not begin.
pub(crate) fn play(hold: &str, send_to: Option<&str>) -> i32 {
    let Ok(bytes) = hold.parse() else { return 2 };
    let held = vec![0xa5_u8; bytes];
    let socket = UdpSocket::bind("0.0.0.0:0");
    loop {
        // A reader that has left must not end a rank: that is for faults to do.
        let _ = io::stdout().write_all(b".").and_then(|()| io::stdout().flush());
        if let (Some(address), Ok(socket)) = (send_to, &socket) {
            let _ = socket.send_to(&held[..held.len().min(512)], address);
        }
        thread::sleep(Duration::from_millis(1));
    }
}
