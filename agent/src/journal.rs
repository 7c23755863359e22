//! The write-ahead record of everything that must be undone.
//!
//! The case writes an [`Undo`] before it does what needs undoing, and marks it done when that was
//! healed. The guard and `ringbreaker recover` call [`replay`] when the agent is dead, which undoes
//! the rest. An entry is on disk before [`Journal::record`] returns; a line torn by a crash is an
//! entry whose action never began, and is ignored.
//!
//! The file is JSON lines: an `owner` line, then `undo` and `done` lines. Whoever works with it
//! holds an exclusive lock on it, which the kernel drops when that process dies: the lock, not a
//! process number, tells whether the owner lives.

mod lines;
mod replay;
mod undo;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use self::lines::{Line, Lines};
pub use self::{
    replay::{Replayed, replay, replay_with},
    undo::{Found, Undo, UndoError},
};

/// Number of an entry within its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub u64);

/// An open journal. While it exists nobody else can open or replay the file.
#[derive(Debug)]
pub struct Journal {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Flock<File>,
    lines: Lines,
}

impl Journal {
    /// Opens or creates the journal at `path`, whose directory must exist. A file in which
    /// everything is done is begun anew; entries that are not done are kept.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds the journal; otherwise what the file system says.
    pub fn open(path: &Path) -> io::Result<Journal> {
        let file = lock(path, OpenOptions::new().create(true))?;
        let lines = Lines::read(&file)?;
        if lines.open.is_empty() {
            file.set_len(0)?;
        } else {
            // Without this the next line would be glued to a torn one and be lost with it.
            file.set_len(lines.whole_bytes)?;
        }
        let mut state = State { file, lines };
        state.append(&Line::Owner { pid: std::process::id() })?;
        state.file.sync_data()?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Journal { state: Mutex::new(state) })
    }

    /// Writes `undo` and returns when it is on disk. Only then may the action begin.
    ///
    /// # Errors
    /// What the file system says; the action must not begin then.
    pub fn record(&self, undo: &Undo) -> io::Result<EntryId> {
        let mut state = self.state();
        let entry = state.lines.next();
        state.append(&Line::Undo { entry, undo: undo.clone() })?;
        state.file.sync_data()?;
        Ok(entry)
    }

    /// Marks an entry as undone. The mark may be lost in a crash of the machine: undoing twice is
    /// harmless, so nobody waits for the disk here.
    ///
    /// # Errors
    /// What the file system says.
    pub fn done(&self, entry: EntryId) -> io::Result<()> {
        self.state().append(&Line::Done { entry })
    }

    /// The entries that are not done, oldest first.
    pub fn pending(&self) -> Vec<(EntryId, Undo)> {
        self.state().lines.open.iter().map(|(entry, undo)| (*entry, undo.clone())).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between the steps of `append` leaves at worst a torn line, which readers accept.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.lines.take(line.clone());
        Ok(())
    }
}

/// What a journal holds, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The process that opened it last; whether it lives is another question.
    pub owner: Option<u32>,
    /// What is not done, oldest first.
    pub open: Vec<Undo>,
    /// Whole lines that this version does not understand.
    pub unreadable: usize,
}

/// Reads a journal without taking its lock; its owner may be writing it.
///
/// # Errors
/// When it cannot be read.
pub fn peek(path: &Path) -> io::Result<Peeked> {
    let Lines { open, unreadable, owner, .. } = Lines::read(&File::open(path)?)?;
    Ok(Peeked { owner, open: open.into_values().collect(), unreadable: unreadable.len() })
}

/// Opens the file for appending and locks it; `WouldBlock` when somebody else has it.
fn lock(path: &Path, options: &mut OpenOptions) -> io::Result<Flock<File>> {
    let file = options.read(true).append(true).open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::PathBuf};

    use proptest::prelude::*;

    use super::*;

    fn file(n: u32) -> Undo {
        Undo::RemoveFile { path: PathBuf::from(format!("/nowhere/ringbreaker-{n}")) }
    }

    fn healed(path: &Path) -> Vec<Undo> {
        let mut seen = Vec::new();
        replay_with(path, |undo| {
            seen.push(undo.clone());
            Ok(Found::Undone)
        })
        .unwrap();
        seen
    }

    #[test]
    fn replay_heals_what_is_not_done_last_first_and_then_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path).unwrap();
        let ids: Vec<EntryId> = (0..4).map(|n| journal.record(&file(n)).unwrap()).collect();
        journal.done(ids[1]).unwrap();
        drop(journal);
        assert_eq!(healed(&path), [file(3), file(2), file(0)]);
        assert_eq!(healed(&path), []);
    }

    #[test]
    fn an_undo_that_fails_is_reported_and_tried_again_by_the_next_replay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        Journal::open(&path).unwrap().record(&file(7)).unwrap();
        let busy = || UndoError { what: "remove it".to_owned(), why: "busy".to_owned() };
        let report = replay_with(&path, |_| Err(busy())).unwrap();
        assert_eq!(report, [Replayed::Undo { undo: file(7), result: Err(busy()) }]);
        assert_eq!(healed(&path), [file(7)]);
    }

    #[test]
    fn a_held_journal_can_be_neither_opened_nor_replayed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let _held = Journal::open(&path).unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(replay(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_journal_in_which_all_is_done_is_begun_anew_at_open_and_others_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path).unwrap();
        for n in 0..20 {
            let entry = journal.record(&file(n)).unwrap();
            journal.done(entry).unwrap();
        }
        drop(journal);
        let before = fs::metadata(&path).unwrap().len();
        let journal = Journal::open(&path).unwrap();
        assert!(fs::metadata(&path).unwrap().len() * 10 < before);
        let kept = journal.record(&file(99)).unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.pending(), [(kept, file(99))]);
        assert_ne!(journal.record(&file(100)).unwrap(), kept, "numbers are not used twice");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_reported_and_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        Journal::open(&path).unwrap().record(&file(1)).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.insert_str(0, "{\"undo\":{\"entry\":12,\"undo\":{\"melt\":{}}}}\n");
        fs::write(&path, text).unwrap();
        let report = replay_with(&path, |_| Ok(Found::Undone)).unwrap();
        assert_eq!(report.len(), 2);
        assert!(report.iter().any(|item| matches!(item, Replayed::Unreadable { line: 1, .. })));
        assert!(report.contains(&Replayed::Undo { undo: file(1), result: Ok(Found::Undone) }));
    }

    /// Length of a journal at some moment, and what is open then.
    type Moment = (usize, BTreeMap<u64, Undo>);

    /// A journal as an agent would write it, with every moment at which it was whole.
    fn written(steps: &[(u32, bool)]) -> (Vec<u8>, Vec<Moment>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path).unwrap();
        let mut open = BTreeMap::new();
        let length = || usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
        let mut after = vec![(0, open.clone()), (length(), open.clone())];
        for (n, close) in steps {
            let first = open.keys().next().copied();
            if let (true, Some(first)) = (*close, first) {
                journal.done(EntryId(first)).unwrap();
                open.remove(&first);
            } else {
                open.insert(journal.record(&file(*n)).unwrap().0, file(*n));
            }
            after.push((length(), open.clone()));
        }
        drop(journal);
        (fs::read(&path).unwrap(), after)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_crash_at_any_byte_leaves_a_journal_that_heals_exactly_what_was_open(
            steps in prop::collection::vec((0u32..1000, any::<bool>()), 0..12)
        ) {
            let (bytes, after) = written(&steps);
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("journal");
            for cut in 0..=bytes.len() {
                fs::write(&path, &bytes[..cut]).unwrap();
                let open = &after.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
                let wanted: Vec<Undo> = open.values().rev().cloned().collect();
                prop_assert_eq!(healed(&path), wanted, "cut at byte {}", cut);
                prop_assert_eq!(healed(&path), Vec::<Undo>::new());
            }
        }

        #[test]
        fn an_agent_that_reopens_a_torn_journal_loses_nothing(
            steps in prop::collection::vec((0u32..1000, any::<bool>()), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let (bytes, after) = written(&steps);
            let cut = cut.index(bytes.len() + 1);
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("journal");
            fs::write(&path, &bytes[..cut]).unwrap();
            Journal::open(&path).unwrap().record(&file(5000)).unwrap();
            let open = &after.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
            let mut wanted = vec![file(5000)];
            wanted.extend(open.values().rev().cloned());
            prop_assert_eq!(healed(&path), wanted);
        }
    }
}
