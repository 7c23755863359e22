//! The GPUs and copies of libnccl of this machine, found by a child process.
//!
//! The agent itself never loads the driver or libnccl: a CUDA context holds GPU memory and would be
//! there when the agent forks, and libnccl may start threads. Children ask, print what they found as
//! JSON, and are gone: `ringbreaker probe-gpu` what there is, and after a case `ringbreaker
//! await-gpu-memory` until its memory is free again ([`Freeing`]). A driver that hangs costs a bounded
//! wait and is said; it never holds up the agent.

use std::{
    ffi::OsString,
    io::{self, PipeReader, Read},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use ringbreaker_scenarios::units::Nanos;

use crate::{
    program::program,
    rank::nccl::{
        cuda::{self, Device},
        find,
        library::Loaded,
    },
    sys::{
        clock,
        process::{self, Process, SpawnRequest, Stdio},
        signal::Signal,
    },
};

/// What is there on every machine whose NVIDIA driver is loaded.
pub(crate) const DRIVER: &str = "/dev/nvidiactl";
/// How long a driver may take to say what is there. Many GPUs that nobody has open take seconds.
const PROBE_WITHIN: Duration = Duration::from_secs(60);
/// How long after a case its GPU memory may take to be free.
const FREE_WITHIN: Duration = Duration::from_secs(3);
/// How often the driver is asked.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// The driver keeps a little for itself that was not there before the first case.
const SLACK: u64 = 64 << 20;

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// CUDA's number for it.
    pub index: u32,
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// As nvidia-smi writes it.
    pub uuid: String,
    /// Release of the kernel driver.
    pub driver: String,
    /// All of its memory.
    pub total_bytes: u64,
    /// What is free of it beside the context of the process that asks (some 0.5 GiB).
    pub free_bytes: u64,
}

/// A copy of libnccl that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Such as `2.28.9`.
    pub version: String,
    /// The functions it has that not every release has.
    pub optional_symbols: Vec<String>,
}

/// What a machine has for real NCCL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The GPUs.
    pub gpus: Vec<GpuInfo>,
    /// The copies of libnccl, best first.
    pub nccl: Vec<NcclInfo>,
    /// Why something that could be there is not, one sentence each.
    pub missing: Vec<String>,
}

/// Looks for GPUs and for libnccl: at the named copies, or in the usual places. Takes about half a
/// second where there is a GPU, and starts nothing where there is neither driver nor library.
pub fn find(named: &[PathBuf]) -> Found {
    if !Path::new(DRIVER).exists() && find::copies(named).is_empty() {
        let missing = vec![format!("no NVIDIA driver is loaded ({DRIVER} is not there)")];
        return Found { missing, ..Found::default() };
    }
    ask_child(named).unwrap_or_else(|error| Found {
        missing: vec![format!("failed to look for GPUs: {error}")],
        ..Found::default()
    })
}

fn ask_child(named: &[PathBuf]) -> io::Result<Found> {
    let named = named.iter().map(|path| path.clone().into_os_string());
    let child = Child::start(&program()?, ["probe-gpu".into()].into_iter().chain(named).collect())?;
    let answer = child.answer(PROBE_WITHIN)?.ok_or_else(|| {
        let seconds = PROBE_WITHIN.as_secs();
        io::Error::other(format!(
            "the NVIDIA driver did not answer within {seconds} s; does nvidia-smi, and what says dmesg?"
        ))
    })?;
    serde_json::from_str(&answer).map_err(io::Error::other)
}

/// What a program that asks the driver prints; none: it has not ended within this time.
pub(crate) fn ask(program: &Path, args: &[&str], within: Duration) -> io::Result<Option<String>> {
    Child::start(program, args.iter().map(Into::into).collect())?.answer(within)
}

/// A child that asks the driver. Dropping it ends it.
#[derive(Debug)]
struct Child {
    process: Process,
    output: PipeReader,
}

impl Child {
    fn start(program: &Path, args: Vec<OsString>) -> io::Result<Child> {
        let (output, stdout) = io::pipe()?;
        let process = process::spawn(SpawnRequest {
            program: program.to_owned(),
            args,
            stdout: Stdio::Fd(stdout.into()),
            ..SpawnRequest::default()
        })
        .map_err(io::Error::other)?;
        Ok(Child { process, output })
    }

    /// Everything that it printed, when it has ended; none: it has not within this time, and was
    /// ended. An answer is short enough for a pipe to hold.
    fn answer(mut self, within: Duration) -> io::Result<Option<String>> {
        if self.process.wait_timeout(within)?.is_none() {
            self.process.signal(Signal::SIGKILL)?;
            return Ok(None);
        }
        let mut answer = String::new();
        self.output.read_to_string(&mut answer)?;
        Ok(Some(answer))
    }
}

/// What is free on each GPU while no case is there, in bytes, as a child with a context sees it.
pub type Idle = Vec<(u32, u64)>;

/// The wait for the GPU memory of a case, by a child. It takes the child some 0.3 s until it can ask:
/// memory that was free by then was free at most that much earlier.
#[derive(Debug)]
pub struct Freeing(Child);

impl Freeing {
    /// Begins to wait, beside whatever else is to be done after a case.
    ///
    /// # Errors
    /// When the child cannot be started.
    pub fn begin(idle: &Idle) -> io::Result<Freeing> {
        let wanted = idle.iter().map(|(gpu, free)| format!("{gpu}={free}").into());
        let args = ["await-gpu-memory".into()].into_iter().chain(wanted).collect();
        Child::start(&program()?, args).map(Freeing)
    }

    /// When all of it was seen to be free (on [`clock::now`]'s clock); none: not within 3 s from now,
    /// as when somebody else uses the GPU.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub fn end(self) -> io::Result<Option<Nanos>> {
        let Some(answer) = self.0.answer(FREE_WITHIN)? else { return Ok(None) };
        let at =
            answer.trim().parse().map_err(|_| io::Error::other("the child that asks failed"))?;
        Ok(Some(Nanos(at)))
    }
}

/// The child of [`Freeing`]: asks until every GPU has as much free as it had, prints when that was.
pub fn await_memory_main(wanted: &[String]) -> i32 {
    let wait = || -> Result<Nanos, String> {
        for word in wanted {
            let (gpu, free) = parse(word).ok_or_else(|| format!("{word} is not GPU=BYTES"))?;
            let device = Device::open(gpu).map_err(|error| error.to_string())?;
            while device.memory().map_err(|error| error.to_string())?.0 + SLACK < free {
                thread::sleep(ASK_EVERY);
            }
        }
        Ok(clock::now())
    };
    match wait() {
        Ok(at) => {
            println!("{}", at.0);
            0
        }
        Err(error) => {
            eprintln!("await-gpu-memory: {error}");
            1
        }
    }
}

fn parse(word: &str) -> Option<(u32, u64)> {
    let (gpu, free) = word.split_once('=')?;
    Some((gpu.parse().ok()?, free.parse().ok()?))
}

/// The child: looks, prints, and returns its exit code.
pub fn probe_main(named: &[PathBuf]) -> i32 {
    let found = look(named);
    let text = serde_json::to_string(&found).expect("invariant: our own words are valid JSON");
    println!("{text}");
    0
}

fn look(named: &[PathBuf]) -> Found {
    let mut found = Found::default();
    match cuda::device_count() {
        Ok(0) => found.missing.push("the NVIDIA driver shows no GPU".to_owned()),
        Ok(count) => {
            for index in 0..count {
                match gpu(index) {
                    Ok(gpu) => found.gpus.push(gpu),
                    Err(error) => found.missing.push(format!("GPU {index}: {error}")),
                }
            }
        }
        Err(error) => found.missing.push(error.to_string()),
    }
    for path in find::copies(named) {
        match Loaded::open(&path) {
            Ok(library) => found.nccl.push(NcclInfo {
                version: library.version().to_string(),
                optional_symbols: library.optional().iter().map(|s| (*s).to_owned()).collect(),
                path,
            }),
            Err(error) => found.missing.push(error.to_string()),
        }
    }
    found
}

fn gpu(index: u32) -> Result<GpuInfo, cuda::CudaError> {
    let identity = cuda::identity(index)?;
    // Only a context can be asked for free memory.
    let (free, _) = Device::open(index)?.memory()?;
    Ok(GpuInfo {
        index,
        name: identity.name,
        uuid: identity.uuid,
        driver: cuda::driver_release().unwrap_or_default(),
        total_bytes: identity.total_bytes,
        free_bytes: free,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(program: &str, args: &[&str]) -> Child {
        Child::start(Path::new(program), args.iter().map(Into::into).collect()).unwrap()
    }

    #[test]
    fn a_driver_that_answers_is_heard_and_one_that_hangs_is_left() {
        let echo = child("/bin/echo", &["17"]).answer(Duration::from_secs(60)).unwrap();
        assert_eq!(echo.as_deref(), Some("17\n"));
        let hanging = child("/bin/sleep", &["1000"]);
        let (pid, start_time) = (hanging.process.pid, hanging.process.start_time);
        assert_eq!(hanging.answer(Duration::from_millis(20)).unwrap(), None);
        assert_eq!(
            crate::sys::procfs::state(pid, start_time).unwrap(),
            None,
            "it was not collected"
        );
    }

    #[test]
    fn memory_that_nobody_saw_free_is_no_moment() {
        let failed = Freeing(child("/bin/false", &[])).end().unwrap_err();
        assert!(failed.to_string().contains("failed"), "{failed}");
        assert_eq!(Freeing(child("/bin/echo", &["42"])).end().unwrap(), Some(Nanos(42)));
        assert_eq!(parse("1=2048"), Some((1, 2048)));
        assert_eq!(parse("1:2048"), None);
    }
}
