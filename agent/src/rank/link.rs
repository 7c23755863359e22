//! The rank's end of the socket pair to its agent.

use std::{
    io::{BufRead, BufReader, Write},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use ringbreaker_scenarios::{
    case::Rank,
    event::{Event, What},
};

use super::protocol::{EXIT_HARNESS, FromRank, RANK_FD, ToRank};
use crate::sys::clock;

/// Commands waiting to be read; an agent never has more than a few outstanding.
const COMMANDS: usize = 16;

/// What the rank says to its agent. Shared by all threads of the rank.
#[derive(Debug)]
pub(super) struct Link {
    rank: Rank,
    stream: Mutex<UnixStream>,
}

impl Link {
    /// Takes over descriptor 3. `on_abort` is called, on the reading thread, when the controller
    /// tells the rank to abort; other commands arrive in the channel.
    pub(super) fn open(
        rank: Rank,
        on_abort: impl Fn() + Send + 'static,
    ) -> std::io::Result<(Link, Receiver<ToRank>)> {
        // SAFETY: the agent starts a rank with its end of a socket pair on this descriptor, and
        // this is the only place that takes it.
        let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(RANK_FD) });
        let reading = stream.try_clone()?;
        let (sender, receiver) = sync_channel(COMMANDS);
        thread::Builder::new()
            .name("rank-link".to_owned())
            .spawn(move || read(reading, &sender, &on_abort))?;
        Ok((Link { rank, stream: Mutex::new(stream) }, receiver))
    }

    /// Says something. A rank that has lost its agent ends here.
    pub(super) fn say(&self, words: &FromRank) {
        let mut line = serde_json::to_vec(words).expect("invariant: our own words are valid JSON");
        line.push(b'\n');
        let mut stream = self.stream.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if stream.write_all(&line).is_err() {
            leave_at_once();
        }
    }

    /// Reports an observation about this rank, now.
    pub(super) fn observe(&self, what: What) {
        self.say(&FromRank::Observed(Event { at: clock::now(), rank: Some(self.rank), what }));
    }
}

/// Reads commands until the agent is gone; then the rank has nobody to run for and ends.
fn read(stream: UnixStream, sender: &SyncSender<ToRank>, on_abort: &dyn Fn()) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(ToRank::Abort) => {
                on_abort();
                // Wakes a main thread that waits for a command; one that works finds out by itself.
                let _woken = sender.try_send(ToRank::Abort);
            }
            Ok(command) => {
                if sender.send(command).is_err() {
                    break;
                }
            }
            Err(error) => {
                eprintln!("rank: cannot understand the agent's {line:?}: {error}");
                break;
            }
        }
    }
    leave_at_once()
}

/// Ends the process without running what libraries registered for its exit: other threads may be
/// inside those libraries, some of them stuck.
fn leave_at_once() -> ! {
    // SAFETY: `_exit` may be called from any thread in any state.
    unsafe { libc::_exit(EXIT_HARNESS) }
}
