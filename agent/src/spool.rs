//! Observations on disk until the controller has stored them.
//!
//! A case appends, from its own threads; the session sends what [`Spool::next`] gives, in order, and
//! tells what was acknowledged. Guarantees: sequence numbers have no gaps and are never given twice,
//! also after a restart of the agent under its old id; what is not acknowledged is sent again after
//! a reconnect. Memory holds no entry, only where it lies in the file; the file shrinks as entries
//! are acknowledged. It does not survive a crash of the machine: nor do the ranks.

mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ringbreaker_scenarios::event::Event;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use self::file::{Place, SpoolFile};
use crate::case::CaseId;

/// The spool is written anew when this many bytes of it are acknowledged.
const DEAD_BYTES: u64 = 1 << 20;

/// An observation with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 1 for each agent id, without gaps.
    pub sequence: u64,
    /// Which case it is about.
    pub case: CaseId,
    /// What happened.
    pub event: Event,
}

/// The spool could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file system refused.
    #[error("could not {step} the spool {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("the spool {path} is damaged at byte {offset}: {reason}; remove it to begin anew", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What was found.
        reason: String,
    },
}

/// The spool of one agent. Shared by the threads of its case and its session.
#[derive(Debug)]
pub struct Spool {
    state: Mutex<State>,
    appended: Notify,
}

#[derive(Debug)]
struct State {
    file: SpoolFile,
    /// Where the entries that are not acknowledged lie, oldest first, without gaps.
    waiting: VecDeque<Place>,
    /// Number of the oldest entry in `waiting`, or of the next one to come.
    first: u64,
    /// How many of `waiting` were handed out since the last [`Spool::rewind`].
    sent: usize,
}

impl Spool {
    /// Opens the spool, or makes one. What it holds will be sent again. A torn last line, from an
    /// agent that was killed while it wrote, is an observation that was never made.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is no spool.
    pub fn open(path: &Path) -> Result<Spool, SpoolError> {
        let (file, first, waiting) = SpoolFile::open(path)?;
        let state = State { file, waiting, first, sent: 0 };
        Ok(Spool { state: Mutex::new(state), appended: Notify::new() })
    }

    /// Adds an observation and gives its number.
    ///
    /// # Errors
    /// When it cannot be written; then it has no number.
    pub fn append(&self, case: &CaseId, event: Event) -> Result<u64, SpoolError> {
        let mut state = self.state();
        let sequence = state.first + state.waiting.len() as u64;
        let place = state.file.append(&Entry { sequence, case: case.clone(), event })?;
        state.waiting.push_back(place);
        drop(state);
        self.appended.notify_one();
        Ok(sequence)
    }

    /// The next observation to send, or none while `window` of them wait for their acknowledgement.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next(&self, window: usize) -> Result<Option<Entry>, SpoolError> {
        let mut state = self.state();
        if state.sent >= window.min(state.waiting.len()) {
            return Ok(None);
        }
        let entry = state.file.read(state.waiting[state.sent])?;
        state.sent += 1;
        Ok(Some(entry))
    }

    /// Waits until something was appended since the last call. One waiter only.
    pub async fn appended(&self) {
        self.appended.notified().await;
    }

    /// Everything up to and including this number is stored at the controller and may be forgotten.
    ///
    /// # Errors
    /// When the file cannot be written anew.
    pub fn acknowledge(&self, sequence: u64) -> Result<(), SpoolError> {
        let mut state = self.state();
        let stored = (sequence + 1).saturating_sub(state.first);
        let known = stored.min(state.waiting.len() as u64);
        // At most the length of a VecDeque, so it fits.
        let known_entries = known as usize;
        state.waiting.drain(..known_entries);
        state.sent = state.sent.saturating_sub(known_entries);
        state.first += known;
        if stored > known && state.waiting.is_empty() {
            // The controller has more than this file: it was lost. Never give a number twice.
            state.first = sequence + 1;
        }
        let dead = state.waiting.front().map_or(state.file.len(), |place| place.offset);
        if dead >= DEAD_BYTES {
            state.rewrite()?;
        }
        Ok(())
    }

    /// After a reconnect: what is not acknowledged will be handed out again, from the oldest.
    pub fn rewind(&self) {
        self.state().sent = 0;
    }

    /// How many observations were not handed out yet.
    pub fn unsent(&self) -> usize {
        let state = self.state();
        state.waiting.len() - state.sent
    }

    /// How many observations are not acknowledged yet.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held left the file as it was after the last whole step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rewrite(&mut self) -> Result<(), SpoolError> {
        self.waiting = self.file.rewrite(self.first, &self.waiting)?;
        Ok(())
    }
}
