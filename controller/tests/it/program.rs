//! The executable under test, with its own runs and state directories.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A place for runs, state and scenarios, removed at the end.
pub(crate) struct Place {
    root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = tempfile::Builder::new().prefix("ringbreaker-it-").tempdir().unwrap();
        fs::create_dir(root.path().join("runs")).unwrap();
        fs::create_dir(root.path().join("state")).unwrap();
        Place { root }
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.path().join("runs")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Writes a scenario and returns its path.
    pub(crate) fn scenario(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The executable with these arguments, in this place.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringbreaker"));
        command
            .args(arguments)
            .current_dir(self.root.path())
            .env("RINGBREAKER_DIR", self.runs())
            .env("RINGBREAKER_STATE", self.state())
            .env_remove("RINGBREAKER_EXE")
            .env_remove("RINGBREAKER_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end as a user without rights (where we are root: `nobody`), to whom this place
    /// belongs from then on.
    pub(crate) fn run_unprivileged(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        if nix::unistd::geteuid().is_root() {
            const NOBODY: u32 = 65534;
            // The build directory may be closed to others.
            let program = self.root.path().join("ringbreaker");
            fs::copy(env!("CARGO_BIN_EXE_ringbreaker"), &program).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            for path in [self.root.path().to_owned(), self.runs(), self.state(), program.clone()] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            let mut other = Command::new(program);
            let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            other.args(arguments).current_dir(self.root.path()).envs(variables);
            other.uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
            command = other;
        }
        Ended::from(command.output().unwrap())
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.command(arguments).output().unwrap())
    }

    /// Starts it, with its standard error readable line by line.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Running { child, lines, heard: Vec::new() }
    }

    /// Nothing in the state directory: no agent of this place has anything left to undo.
    pub(crate) fn left_in_state(&self) -> Vec<PathBuf> {
        entries(&self.state())
    }

    /// Processes whose command line names this place.
    pub(crate) fn processes(&self) -> Vec<String> {
        let place = self.root.path().to_string_lossy().into_owned();
        let read = |pid: &Path| fs::read(pid.join("cmdline")).unwrap_or_default();
        entries(Path::new("/proc"))
            .into_iter()
            .map(|pid| (String::from_utf8_lossy(&read(&pid)).replace('\0', " "), pid))
            .filter(|(line, _)| line.contains(&place))
            .map(|(line, pid)| format!("{}: {line}", pid.display()))
            .collect()
    }

    /// Waits until no process of this place is left, its state directory is empty, and no cgroup of
    /// a dead agent is there. (Other tests' agents live at the same time.)
    pub(crate) fn must_become_clean(&self) {
        eventually("this place to become clean", || {
            let (processes, state) = (self.processes(), self.left_in_state());
            let cgroups = orphaned_cgroups(Path::new("/sys/fs/cgroup"));
            if processes.is_empty() && state.is_empty() && cgroups.is_empty() {
                Ok(())
            } else {
                Err(format!("processes {processes:#?}, state {state:#?}, cgroups {cgroups:#?}"))
            }
        });
    }
}

/// Cgroups that carry the number of an agent that is dead.
fn orphaned_cgroups(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(root).into_iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix("ringbreaker-") {
            let number = |part: &&str| part.parse::<u32>().is_ok();
            let pid = rest.split('-').find(number).unwrap_or_default();
            if !Path::new("/proc").join(pid).exists() {
                found.push(path);
            }
        } else {
            found.extend(orphaned_cgroups(&path));
        }
    }
    found
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(path).into_iter().flatten();
    read.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Asks again until the answer is right.
pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> Result<(), String>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(()) => return,
            Err(why) if Instant::now() > deadline => panic!("waited for {what} in vain: {why}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// What a finished program said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn must_end_with(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A program that runs; ended when dropped.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for a line of standard error that contains this, and returns it.
    pub(crate) fn hear(&mut self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(e) => panic!("no {part:?} ({e}) in {:#?}", self.heard),
            }
        }
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    panic!("it does not end; it said {:#?}", self.heard)
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.heard.push(line);
        }
        Ended { code: status.code(), stdout, stderr: self.heard.join("\n") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
