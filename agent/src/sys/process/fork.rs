//! fork, a few steps, execve: the one place where a child is made.
//!
//! Everything that allocates happens before the fork. Between fork and execve the child makes system
//! calls only, because another thread may have held any lock at the moment of the fork.

use std::{
    collections::BTreeMap,
    env,
    ffi::{CString, OsString},
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::{Arc, Mutex},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    unistd::pipe2,
};

use super::{Entry, Process, SpawnError, SpawnRequest, Stdio, pidfd};
use crate::sys::{namespace::Namespaces, procfs};

/// The steps of the child, in order; an error report names one by its position.
const STEPS: [&str; 9] = [
    "tie its life to the agent",
    "join the cgroup",
    "enter the mount namespace",
    "enter the network namespace",
    "enter the time namespace",
    "change to its working directory",
    "set the limit of open descriptors",
    "place its descriptors",
    "execute the program",
];

/// Everything the child needs, in the form that system calls take.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    directory: CString,
    namespaces: Option<Arc<Namespaces>>,
    time: Option<Arc<OwnedFd>>,
    procs: Vec<File>,
    nofile: Option<u64>,
    /// Source (above every target) and target.
    moves: Vec<(OwnedFd, RawFd)>,
    parent: i32,
}

/// See [`super::spawn`]. Must run on the spawner's thread.
pub(super) fn fork_and_exec(request: SpawnRequest) -> Result<Process, SpawnError> {
    let program = request.program.clone();
    let fail = |step: &'static str| {
        let program = program.clone();
        move |source: io::Error| SpawnError::Step { program, step, source }
    };
    let prepared = Prepared::from_request(request).map_err(fail("prepare"))?;
    let argv = pointers(&prepared.argv);
    let envp = pointers(&prepared.envp);
    let (report, reporter) =
        pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from).map_err(fail("prepare"))?;
    let reporter = raise(reporter, prepared.lowest_free()).map_err(fail("prepare"))?;
    // SAFETY: the child only calls `child`, which makes system calls on memory prepared above and
    // ends in execve or _exit.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(fail("fork")(io::Error::last_os_error())),
        // SAFETY: in the child; the arrays end in a null pointer and outlive the call.
        0 => unsafe { child(&prepared, &argv, &envp, reporter.as_raw_fd()) },
        pid => pid,
    };
    drop(reporter);
    let process = adopt(pid).map_err(fail("fork"))?;
    match read_report(report).map_err(fail("fork"))? {
        None => Ok(process),
        Some((step, source)) => Err(fail(step)(source)),
    }
}

fn adopt(pid: i32) -> io::Result<Process> {
    let gone = || io::Error::other("the child vanished before it was collected");
    let pid = u32::try_from(pid).map_err(io::Error::other)?;
    // The child stays at least as a zombie until we collect it, so its id still means it.
    let pidfd = pidfd::open(pid)?.ok_or_else(gone)?;
    let start_time = procfs::start_time(pid)?.ok_or_else(gone)?;
    Ok(Process { pid, start_time, pidfd, status: Mutex::new(None) })
}

/// The pipe closes at execve; before that the child writes what went wrong, if anything did.
fn read_report(report: OwnedFd) -> io::Result<Option<(&'static str, io::Error)>> {
    let mut bytes = Vec::new();
    File::from(report).read_to_end(&mut bytes)?;
    let Ok([step, errno @ ..]) = <[u8; 5]>::try_from(bytes) else { return Ok(None) };
    let step = STEPS.get(usize::from(step)).copied().unwrap_or("begin");
    Ok(Some((step, io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))))
}

impl Prepared {
    fn from_request(request: SpawnRequest) -> io::Result<Prepared> {
        let SpawnRequest { program, args, env, env_remove, directory, fds, entry, .. } = request;
        let Entry { namespaces, time, cgroup_procs, nofile } = entry.unwrap_or_default();
        let directory = directory.map_or_else(env::current_dir, Ok)?;
        let mut argv = vec![c_string(program.as_os_str().as_bytes())?];
        for arg in &args {
            argv.push(c_string(arg.as_bytes())?);
        }
        let above = fds.iter().map(|(_, target)| target + 1).max().unwrap_or(3);
        let mut moves = Vec::new();
        let standard = [(request.stdin, 0), (request.stdout, 1), (request.stderr, 2)];
        for (stream, target) in standard {
            let source = match stream {
                Stdio::Inherit => continue,
                Stdio::Null => OpenOptions::new().read(true).write(true).open("/dev/null")?.into(),
                Stdio::Fd(fd) => fd,
            };
            moves.push((raise(source, above)?, target));
        }
        for (source, target) in fds {
            moves.push((raise(source, above)?, target));
        }
        Ok(Prepared {
            program: c_string(program.as_os_str().as_bytes())?,
            argv,
            envp: environment(env, &env_remove)?,
            directory: c_string(directory.as_os_str().as_bytes())?,
            namespaces,
            time,
            procs: cgroup_procs.iter().map(|p| open_to_write(p)).collect::<io::Result<_>>()?,
            nofile,
            moves,
            parent: std::process::id().cast_signed(),
        })
    }

    /// The lowest number that no target of the child uses.
    fn lowest_free(&self) -> RawFd {
        self.moves.iter().map(|(_, target)| target + 1).max().unwrap_or(3).max(3)
    }
}

/// The agent's environment without `remove`, and `add` on top.
fn environment(add: BTreeMap<String, String>, remove: &[String]) -> io::Result<Vec<CString>> {
    let mut all: BTreeMap<OsString, OsString> = env::vars_os().collect();
    all.retain(|name, _| !remove.iter().any(|r| name == r.as_str()));
    all.extend(add.into_iter().map(|(name, value)| (name.into(), value.into())));
    all.iter()
        .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect()
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Moves a descriptor to a number of at least `lowest`, so that placing others cannot overwrite it.
fn raise(fd: OwnedFd, lowest: RawFd) -> io::Result<OwnedFd> {
    let raised = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: fcntl has just made this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raised) })
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The child's side: every step, then the program; or the report of what failed.
///
/// # Safety
/// Only between fork and execve, and `argv` and `envp` end in a null pointer.
unsafe fn child(
    prepared: &Prepared,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    reporter: RawFd,
) -> ! {
    // SAFETY: as this function demands.
    let (step, errno) = unsafe { steps(prepared, argv, envp) };
    let mut bytes = [step; 5];
    bytes[1..].copy_from_slice(&(errno as i32).to_ne_bytes());
    // SAFETY: five bytes of our own stack; then the child ends without running destructors.
    unsafe {
        libc::write(reporter, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

/// Returns only when a step failed: its position in [`STEPS`] and why.
///
/// # Safety
/// As [`child`].
unsafe fn steps(
    prepared: &Prepared,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
) -> (u8, Errno) {
    // SAFETY: plain system calls on integers and on memory that `prepared` owns.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return (0, Errno::last());
        }
        if libc::getppid() != prepared.parent {
            // The agent died before the line above took hold.
            libc::_exit(127);
        }
        reset_signals();
        for procs in &prepared.procs {
            if libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1 {
                return (1, Errno::last());
            }
        }
        if let Some(namespaces) = &prepared.namespaces {
            if libc::setns(namespaces.mount.as_raw_fd(), libc::CLONE_NEWNS) != 0 {
                return (2, Errno::last());
            }
            if libc::setns(namespaces.net.as_raw_fd(), libc::CLONE_NEWNET) != 0 {
                return (3, Errno::last());
            }
        }
        if let Some(time) = &prepared.time
            && libc::setns(time.as_raw_fd(), libc::CLONE_NEWTIME) != 0
        {
            return (4, Errno::last());
        }
        if libc::chdir(prepared.directory.as_ptr()) != 0 {
            return (5, Errno::last());
        }
        if let Some(limit) = prepared.nofile {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0 {
                return (6, Errno::last());
            }
        }
        for (source, target) in &prepared.moves {
            if libc::dup2(source.as_raw_fd(), *target) < 0 {
                return (7, Errno::last());
            }
        }
        // Anything that a library of the agent left open without CLOEXEC is not for the child.
        // Kernels before 5.11 do not know this; then only such left-overs pass.
        let first = prepared.lowest_free().cast_unsigned();
        libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        libc::execve(prepared.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
    }
    (8, Errno::last())
}

/// Rust ignores SIGPIPE and its runtime may have blocked signals; programs expect neither.
///
/// # Safety
/// As [`child`].
unsafe fn reset_signals() {
    // SAFETY: sigset_t is plain memory that sigemptyset fills in.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
