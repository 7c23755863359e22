//! The kill switch of a machine: while it is engaged, no agent injects anything.
//!
//! It is a file in the state directory, so that it needs no controller, reaches agents that nobody
//! talks to, and outlives agents and reboots until somebody releases it. Agents look before every
//! injection; their service ends the case in flight (see `service::watch`). A file that cannot be
//! read or understood counts as engaged.

use std::{
    fmt,
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Name of the file.
const FILE: &str = "stopped";

/// Who engaged it, when and why; words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// When.
    pub since: String,
    /// User and host.
    pub by: String,
    /// May be empty.
    pub reason: String,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped { since, by, reason } = self;
        write!(f, "injections are stopped since {since} by {by}")?;
        if !reason.is_empty() {
            write!(f, " ({reason})")?;
        }
        f.write_str("; `ringbreaker stop --release` lifts it")
    }
}

/// The switch of one state directory.
#[derive(Clone, Debug)]
pub struct Switch {
    state: PathBuf,
}

impl Switch {
    /// The switch of the agents that journal under `state`.
    pub fn of(state: &Path) -> Switch {
        Switch { state: state.to_owned() }
    }

    /// Whether it is engaged. Takes some microseconds.
    pub fn look(&self) -> Option<Stopped> {
        let path = self.file();
        match fs::read(&path) {
            Ok(text) => Some(serde_json::from_slice(&text).unwrap_or_else(|_| Stopped {
                since: "some time".to_owned(),
                by: "somebody".to_owned(),
                reason: format!("{} is there", path.display()),
            })),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                None
            }
            Err(error) => Some(Stopped {
                since: "some time".to_owned(),
                by: "somebody".to_owned(),
                reason: format!("{} cannot be read: {error}", path.display()),
            }),
        }
    }

    /// Engages it, and returns when that is on disk. Who engaged it first stays on record.
    ///
    /// # Errors
    /// What the file system says.
    pub fn engage(&self, stopped: &Stopped) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.state)?;
        let new = self.state.join(format!("{FILE}.{}", std::process::id()));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(stopped)?)?;
        file.sync_all()?;
        // A link is never made over a file that is there, and shows its whole content at once.
        let linked = fs::hard_link(&new, self.file());
        fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.and_then(|()| File::open(&self.state)?.sync_all()),
        }
    }

    /// Releases it; false: it was not engaged.
    ///
    /// # Errors
    /// What the file system says; it is still engaged then.
    pub fn release(&self) -> io::Result<bool> {
        match fs::remove_file(self.file()) {
            Ok(()) => File::open(&self.state)?.sync_all().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn file(&self) -> PathBuf {
        self.state.join(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(name: &str) -> Stopped {
        Stopped { since: "noon".into(), by: name.into(), reason: "smoke".into() }
    }

    #[test]
    fn it_is_engaged_from_then_on_until_it_is_released_and_tells_who_was_first() {
        let root = tempfile::tempdir().unwrap();
        let switch = Switch::of(&root.path().join("not/there/yet"));
        assert_eq!(switch.look(), None);
        assert!(!switch.release().unwrap());
        switch.engage(&by("ada")).unwrap();
        switch.engage(&by("bob")).unwrap();
        let seen = Switch::of(&root.path().join("not/there/yet")).look().unwrap();
        assert_eq!(seen, by("ada"));
        assert_eq!(
            seen.to_string(),
            "injections are stopped since noon by ada (smoke); `ringbreaker stop --release` lifts it"
        );
        assert!(switch.release().unwrap());
        assert_eq!(switch.look(), None);
        assert_eq!(fs::read_dir(root.path().join("not/there/yet")).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_read_or_understood_is_engaged() {
        let root = tempfile::tempdir().unwrap();
        let switch = Switch::of(root.path());
        fs::write(root.path().join(FILE), "").unwrap();
        assert!(switch.look().unwrap().reason.contains("is there"));
        fs::remove_file(root.path().join(FILE)).unwrap();
        fs::create_dir(root.path().join(FILE)).unwrap();
        assert!(switch.look().unwrap().reason.contains("cannot be read"));
    }
}
