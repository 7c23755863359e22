//! One job of ranks on this machine, from start to the last black box, without an agent around it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use ringbreaker_scenarios::{
    case::{WatchdogPlan, WorkloadPlan},
    event::{Event, ExitStatus, OpSummary, What},
    words::Backend,
};

use crate::{
    program::program,
    rank::{
        blackbox::{self, BlackBoxError},
        protocol::{FromRank, RANK_FD, RankSpec, ToRank},
    },
    sys::process::{Process, SpawnError, SpawnRequest, Stdio, spawn},
};

/// How long a rank may take to leave once its work is done.
const LEAVES_WITHIN: Duration = Duration::from_secs(30);

/// What ranks run on, and how many.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What to run.
    pub backend: Backend,
    /// Number of ranks.
    pub world: u32,
    /// libnccl, for the nccl backend.
    pub nccl: Option<PathBuf>,
    /// The CUDA device and the environment of each rank; empty: none, as the machine has it.
    pub ranks: Vec<(Option<u32>, BTreeMap<String, String>)>,
    /// Where specs, logs and black boxes go while the job runs.
    pub directory: PathBuf,
}

/// A benchmark that gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The machine refused something.
    #[error("failed to {action}: {source}")]
    Machine {
        /// What was tried.
        action: &'static str,
        /// What the machine said.
        #[source]
        source: io::Error,
    },
    /// A rank process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A black box could not be read.
    #[error(transparent)]
    BlackBox(#[from] BlackBoxError),
    /// A rank ended, or noticed an error, before its work was done.
    #[error("rank {rank} did not finish: {what}; see its log in {}", directory.display())]
    Unfinished {
        /// The rank.
        rank: usize,
        /// How it ended or what it noticed.
        what: String,
        /// Where the logs are.
        directory: PathBuf,
    },
}

struct Member {
    process: Process,
    stream: BufReader<UnixStream>,
    blackbox: PathBuf,
}

/// Runs a workload to its end; returns the black box of each rank.
pub(super) fn run(
    machine: &Machine,
    workload: &WorkloadPlan,
) -> Result<Vec<OpSummary>, BenchError> {
    let members: Vec<Member> =
        (0..machine.world).map(|rank| start(machine, workload, rank)).collect::<Result<_, _>>()?;
    let mut job = Job { machine, members };
    job.until_all(|said| matches!(said, FromRank::Ready { .. }))?;
    job.say(0, &ToRank::MakeId)?;
    let id = match job.until(0, |said| matches!(said, FromRank::Id { .. }))? {
        FromRank::Id { id } => id,
        _ => unreachable!("the predicate lets nothing else through"),
    };
    for rank in 0..job.members.len() {
        job.say(rank, &ToRank::Init { id: id.clone() })?;
    }
    job.until_all(|said| matches!(said, FromRank::WarmedUp))?;
    for rank in 0..job.members.len() {
        job.say(rank, &ToRank::Go)?;
    }
    job.finish()
}

fn start(machine: &Machine, workload: &WorkloadPlan, rank: u32) -> Result<Member, BenchError> {
    let failed = |action| move |source| BenchError::Machine { action, source };
    let blackbox = machine.directory.join(format!("rank{rank}.blackbox"));
    let (gpu, mut env) = machine.ranks.get(rank as usize).cloned().unwrap_or_default();
    env.entry("NCCL_SOCKET_IFNAME".to_owned()).or_insert_with(|| "lo".to_owned());
    let spec = RankSpec {
        checkpoint: None,
        backend: machine.backend,
        rank,
        world: machine.world,
        workload: workload.clone(),
        watchdog: WatchdogPlan::default(),
        announce: Vec::new(),
        nccl: machine.nccl.clone(),
        gpu,
        blackbox: Some(blackbox.clone()),
        blackbox_ops: workload.iterations + workload.warmup,
    };
    let file = machine.directory.join(format!("rank{rank}.spec.json"));
    let text = serde_json::to_vec(&spec).expect("invariant: our own words are valid JSON");
    std::fs::write(&file, text).map_err(failed("write a rank's spec"))?;
    let log = std::fs::File::create(machine.directory.join(format!("rank{rank}.log")))
        .map_err(failed("make a rank's log"))?;
    let errors = log.try_clone().map_err(failed("make a rank's log"))?;
    let (ours, theirs) = UnixStream::pair().map_err(failed("make a socket pair"))?;
    let process = spawn(SpawnRequest {
        program: program().map_err(failed("find the executable"))?,
        args: vec!["rank".into(), "--spec".into(), file.into()],
        env,
        stdout: Stdio::Fd(log.into()),
        stderr: Stdio::Fd(errors.into()),
        fds: vec![(OwnedFd::from(theirs), RANK_FD)],
        ..SpawnRequest::default()
    })?;
    Ok(Member { process, stream: BufReader::new(ours), blackbox })
}

struct Job<'a> {
    machine: &'a Machine,
    members: Vec<Member>,
}

impl Job<'_> {
    fn unfinished(&self, rank: usize, what: impl Into<String>) -> BenchError {
        let directory = self.machine.directory.clone();
        BenchError::Unfinished { rank, what: what.into(), directory }
    }

    fn say(&mut self, rank: usize, words: &ToRank) -> Result<(), BenchError> {
        let mut line = serde_json::to_vec(words).expect("invariant: our own words are valid JSON");
        line.push(b'\n');
        self.members[rank]
            .stream
            .get_mut()
            .write_all(&line)
            .map_err(|e| self.unfinished(rank, format!("it does not listen: {e}")))
    }

    /// The next thing a rank says; none: it has ended.
    fn hear(&mut self, rank: usize) -> Result<Option<FromRank>, BenchError> {
        let mut line = String::new();
        let heard = self.members[rank].stream.read_line(&mut line);
        match heard {
            Ok(0) | Err(_) => Ok(None),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|e| self.unfinished(rank, format!("it said {line:?}: {e}"))),
        }
    }

    fn until(
        &mut self,
        rank: usize,
        wanted: impl Fn(&FromRank) -> bool,
    ) -> Result<FromRank, BenchError> {
        loop {
            match self.hear(rank)? {
                Some(said) if wanted(&said) => return Ok(said),
                Some(FromRank::Observed(Event { what: What::Detected(detection), .. })) => {
                    return Err(self.unfinished(rank, detection.message));
                }
                Some(_) => {}
                None => {
                    let ended = self.members[rank].process.wait();
                    return Err(self.unfinished(rank, format!("it ended: {ended:?}")));
                }
            }
        }
    }

    fn until_all(&mut self, wanted: impl Fn(&FromRank) -> bool) -> Result<(), BenchError> {
        (0..self.members.len()).try_for_each(|rank| self.until(rank, &wanted).map(drop))
    }

    /// Waits for the end of every rank, and reads what they left.
    fn finish(mut self) -> Result<Vec<OpSummary>, BenchError> {
        let mut boxes = Vec::new();
        for rank in 0..self.members.len() {
            while let Some(said) = self.hear(rank)? {
                if let FromRank::Observed(Event { what: What::Detected(detection), .. }) = said {
                    return Err(self.unfinished(rank, detection.message));
                }
            }
            let status = self.members[rank].process.wait_timeout(LEAVES_WITHIN);
            if !matches!(status, Ok(Some(ExitStatus::Code(0)))) {
                return Err(self.unfinished(rank, format!("it ended with {status:?}")));
            }
            boxes.push(blackbox::read(&self.members[rank].blackbox)?);
        }
        Ok(boxes)
    }
}
