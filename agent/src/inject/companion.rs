//! Companion processes of faults: the same executable with a hidden subcommand, talked to in lines.
//!
//! A helper is idle until it is told what to do. It ends when its standard input closes, and the
//! kernel ends it with the agent; its journal entry is for what neither catches.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write},
    path::PathBuf,
    time::Duration,
};

use super::Ground;
use crate::{
    journal::Undo,
    sys::{
        process::{self, Process, SpawnRequest, Stdio},
        signal::Signal,
    },
};

/// How long a helper that was told to leave, or killed, may take.
const GRACE: Duration = Duration::from_secs(5);

/// A running helper. Dropping it ends it.
pub(super) struct Companion {
    process: Process,
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    log: PathBuf,
}

impl Companion {
    /// Starts `ringbreaker SUBCOMMAND` and returns what it says when it is ready.
    pub(super) fn start(ground: &Ground, subcommand: &str) -> io::Result<(Companion, String)> {
        let (stdin, input) = io::pipe()?;
        let (output, stdout) = io::pipe()?;
        let log = ground.directory.join(format!("{subcommand}.log"));
        let stderr = OpenOptions::new().create(true).append(true).open(&log)?;
        let process = process::spawn(SpawnRequest {
            program: ground.program()?,
            args: vec![subcommand.into()],
            stdin: Stdio::Fd(stdin.into()),
            stdout: Stdio::Fd(stdout.into()),
            stderr: Stdio::Fd(stderr.into()),
            ..SpawnRequest::default()
        })
        .map_err(io::Error::other)?;
        let output = BufReader::new(output);
        let mut helper = Companion { process, input: Some(input), output, log };
        let words = helper.hear("ready")?;
        Ok((helper, words))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// What must be done about it if the agent dies.
    pub(super) fn undo(&self) -> Undo {
        Undo::KillProcess { pid: self.process.pid, start_time: self.process.start_time }
    }

    /// Tells it one line.
    pub(super) fn say(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("it was told to leave"))?;
        writeln!(input, "{line}")
    }

    /// Waits for a line that begins with `word` and returns the rest of it. Any other line is the
    /// helper's complaint.
    pub(super) fn hear(&mut self, word: &str) -> io::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::other(self.last_words()));
        }
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(io::Error::other(line.trim_end().to_owned())),
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().last().unwrap_or("without a word");
        format!("the helper process ended: {last}")
    }

    /// Closes its standard input, so that it gives back in good order what it holds, and waits; ends
    /// it by force when it takes too long. False: it is still there.
    pub(super) fn leave(&mut self) -> io::Result<bool> {
        self.input = None;
        if self.process.wait_timeout(GRACE)?.is_some() {
            return Ok(true);
        }
        self.kill()
    }

    /// Ends it by force and waits. False: it is still there.
    pub(super) fn kill(&mut self) -> io::Result<bool> {
        self.process.signal(Signal::SIGKILL)?;
        Ok(self.process.wait_timeout(GRACE)?.is_some())
    }
}
