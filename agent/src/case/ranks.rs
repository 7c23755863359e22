//! The rank processes of a case: started, spoken to, heard, ended.
//!
//! Each has one thread here that reads what it says until its socket closes, then waits for its
//! end, so that nothing a rank said comes after the news of its exit.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::{Arc, mpsc::SyncSender},
    thread,
    time::Duration,
};

use ringbreaker_scenarios::{
    case::{Rank, Trigger},
    event::ExitStatus,
    units::Nanos,
};

use super::{
    Assignment, CaseError,
    environment::{self, Log, environment},
    equipment::{self, Equipment},
    input::Input,
    site::Site,
};
use crate::{
    inject::RankProcess,
    program,
    rank::{
        blackbox,
        protocol::{FromRank, RANK_FD, RankSpec, ToRank},
    },
    sys::{
        clock,
        process::{self, Entry, Process, SpawnRequest, Stdio},
        signal::Signal,
        thread::urgent,
        timens,
    },
};

/// How many operations a black box keeps.
const BLACKBOX_OPS: u32 = 4096;
/// A rank that is stopped does not read; what the agent says to it fits its socket for long.
const WRITE_LIMIT: Duration = Duration::from_millis(100);

/// One rank.
struct Member {
    process: Arc<Process>,
    socket: UnixStream,
    exited: bool,
    /// Whether the harness ended it.
    killed: bool,
    /// How far its clock was ahead of ours when it told; none: it has not.
    clock_ahead: Option<i64>,
}

/// All ranks of a case, in order. Dropping them ends them.
pub(super) struct Ranks {
    members: Vec<Member>,
}

impl Ranks {
    /// Starts every rank. What they say arrives in `inbox`.
    pub(super) fn start(
        assignment: &Assignment,
        site: &Site,
        equipment: &Equipment,
        inbox: &SyncSender<Input>,
    ) -> Result<Ranks, CaseError> {
        let program =
            program::program().map_err(CaseError::step("find the ringbreaker executable"))?;
        let mut members = Vec::new();
        for rank in 0..assignment.world() {
            members.push(start(assignment, rank, site, equipment, &program, inbox)?);
        }
        Ok(Ranks { members })
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = (Rank, u32)> + '_ {
        (0..).zip(self.members.iter().map(|member| member.process.pid))
    }

    /// The ranks as injectors see them.
    pub(super) fn processes(&self, assignment: &Assignment) -> Vec<RankProcess> {
        (0..)
            .zip(&self.members)
            .map(|(rank, member)| RankProcess {
                rank,
                node: assignment.node_of(rank),
                pid: member.process.pid,
                start_time: member.process.start_time,
                clock_ahead: member.clock_ahead,
            })
            .collect()
    }

    /// A rank told its clock, which was heard at `at`.
    pub(super) fn told_clock(&mut self, rank: Rank, clock: Nanos, at: Nanos) {
        if let Some(member) = self.members.get_mut(rank as usize) {
            member.clock_ahead = Some(clock.0.wrapping_sub(at.0).cast_signed());
        }
    }

    /// Says something to one rank. A rank that is gone hears nothing, and its end is news of its own.
    pub(super) fn tell(&mut self, rank: Rank, what: &ToRank) {
        let Some(member) = self.members.get_mut(rank as usize) else { return };
        let line = serde_json::to_vec(what).map(|mut line| {
            line.push(b'\n');
            line
        });
        let told = line.map_err(io::Error::from).and_then(|line| member.socket.write_all(&line));
        if let Err(error) = told {
            tracing::debug!(rank, ?what, %error, "a rank did not hear");
        }
    }

    pub(super) fn tell_all(&mut self, what: &ToRank) {
        for (rank, _) in (0..).zip(0..self.members.len()) {
            self.tell(rank, what);
        }
    }

    /// A rank's end was heard. True when the harness ended it.
    pub(super) fn exited(&mut self, rank: Rank, status: ExitStatus) -> bool {
        let Some(member) = self.members.get_mut(rank as usize) else { return false };
        member.exited = true;
        // One that ended by itself between our look and our signal was not ended by us.
        member.killed && status == ExitStatus::Signal(Signal::SIGKILL as i32)
    }

    /// Whether every rank's end was heard.
    pub(super) fn all_exited(&self) -> bool {
        self.members.iter().all(|member| member.exited)
    }

    /// Ends those that run. Their exits are heard later.
    pub(super) fn kill(&mut self) {
        for member in &mut self.members {
            let running = !member.exited && matches!(member.process.try_wait(), Ok(None));
            if running {
                member.killed = true;
                if let Err(error) = member.process.signal(Signal::SIGKILL) {
                    tracing::warn!(pid = member.process.pid, %error, "could not end a rank");
                }
            }
        }
    }
}

fn start(
    assignment: &Assignment,
    rank: Rank,
    site: &Site,
    equipment: &Equipment,
    program: &Path,
    inbox: &SyncSender<Input>,
) -> Result<Member, CaseError> {
    let spec = environment::spec_path(&assignment.directory, rank);
    let text = serde_json::to_vec_pretty(&rank_spec(assignment, rank, equipment))
        .map_err(io::Error::from)
        .map_err(CaseError::file("write", &spec))?;
    fs::write(&spec, text).map_err(CaseError::file("write", &spec))?;
    let black_box = environment::blackbox_path(&assignment.directory, rank);
    blackbox::prepare(&black_box, BLACKBOX_OPS).map_err(CaseError::file("prepare", &black_box))?;
    let log = environment::log_path(&assignment.directory, rank, Log::Own);
    let stdout = File::create(&log).map_err(CaseError::file("create", &log))?;
    let stderr = stdout.try_clone().map_err(CaseError::file("open", &log))?;
    let step = CaseError::step("make the socket of a rank");
    let (socket, theirs) = UnixStream::pair().map_err(step)?;
    socket
        .set_write_timeout(Some(WRITE_LIMIT))
        .map_err(CaseError::step("set up the socket of a rank"))?;
    let listening = socket.try_clone().map_err(CaseError::step("set up the socket of a rank"))?;
    let node = site.nodes.get(assignment.node_of(rank) as usize);
    let time = clocks(assignment.clock_offset(rank))?;
    let entry = node.map(|node| Entry { time, ..node.entry(rank) });
    let request = SpawnRequest {
        program: program.to_owned(),
        args: ["rank".into(), "--spec".into(), spec.into()].into(),
        env: environment(assignment, rank, &site.nodes, equipment),
        stdout: Stdio::Fd(stdout.into()),
        stderr: Stdio::Fd(stderr.into()),
        fds: vec![(OwnedFd::from(theirs), RANK_FD)],
        entry,
        ..SpawnRequest::default()
    };
    let process = process::spawn(request).map_err(|source| CaseError::Spawn { rank, source })?;
    let process = Arc::new(process);
    let (heard, watched) = (inbox.clone(), Arc::clone(&process));
    thread::Builder::new()
        .name(format!("rank-{rank}"))
        .spawn(move || listen(rank, listening, &watched, &heard))
        .map_err(CaseError::step("start a thread"))?;
    Ok(Member { process, socket, exited: false, killed: false, clock_ahead: None })
}

/// The time namespace of a rank whose clocks are shifted.
fn clocks(offset: i64) -> Result<Option<Arc<OwnedFd>>, CaseError> {
    if offset == 0 {
        return Ok(None);
    }
    let made = timens::shifted(offset).map_err(CaseError::step(
        "make a time namespace (shift_clock needs Linux 5.6, root or a user namespace, and a clock \
         that does not fall below zero)",
    ))?;
    Ok(Some(Arc::new(made)))
}

fn rank_spec(assignment: &Assignment, rank: Rank, equipment: &Equipment) -> RankSpec {
    RankSpec {
        backend: assignment.backend,
        rank,
        world: assignment.world(),
        workload: assignment.workload.clone(),
        watchdog: assignment
            .ranks
            .get(rank as usize)
            .map(|plan| plan.watchdog.clone())
            .unwrap_or_default(),
        announce: announced(assignment),
        nccl: equipment.nccl.clone(),
        gpu: equipment::gpus_by_rank(assignment, equipment.gpus).get(&rank).copied(),
        checkpoint: environment::checkpoint_path(assignment, rank),
        blackbox: Some(environment::blackbox_path(&assignment.directory, rank)),
        blackbox_ops: BLACKBOX_OPS,
    }
}

/// The iterations that a trigger waits for.
fn announced(assignment: &Assignment) -> Vec<u32> {
    let waited = assignment.faults.iter().filter_map(|fault| match fault.when {
        Trigger::Iteration(iteration) => Some(iteration),
        Trigger::After(_) | Trigger::Phase(_) => None,
    });
    let mut iterations: Vec<u32> = waited.collect();
    iterations.sort_unstable();
    iterations.dedup();
    iterations
}

/// For the threads between a trigger and its effect, which mostly sleep: on a machine that is full of
/// ranks they would wait for their turn.
pub(super) fn be_urgent() {
    if let Err(error) = urgent() {
        tracing::debug!(%error, "this thread takes its turn like any other");
    }
}

/// Reads until the rank's socket closes, then waits for its end. Nobody may be listening any more.
fn listen(rank: Rank, socket: UnixStream, process: &Process, heard: &SyncSender<Input>) {
    be_urgent();
    for line in BufReader::new(socket).lines().map_while(Result::ok) {
        let at = clock::now();
        let input = match serde_json::from_str::<FromRank>(&line) {
            Ok(said) => Input::Said { rank, at, said },
            Err(error) => Input::Garbled { rank, at, line: format!("{line} ({error})") },
        };
        if heard.send(input).is_err() {
            break;
        }
    }
    let status = process.wait();
    let at: Nanos = clock::now();
    let input = match status {
        Ok(status) => Input::Exited { rank, at, status },
        Err(error) => Input::Garbled { rank, at, line: format!("its end was not seen: {error}") },
    };
    // The case is over when nobody listens: it has collected the rank itself.
    drop(heard.send(input));
}
