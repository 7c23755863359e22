//! A job of real rank processes on the host backend, driven as an agent drives them.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    node::VirtualNode,
    rank::{
        blackbox,
        protocol::{FromRank, RANK_FD, RankSpec, ToRank},
    },
    sys::process::{self, Entry, Process, SpawnRequest},
};
use ringbreaker_scenarios::{
    case::{NodeLimits, Rank, WatchdogPlan, WorkloadPlan},
    event::{Detection, Event, ExitStatus, OpSummary, What},
    units::{Bytes, Nanos},
    words::{Backend, Collective, Dtype, ErrorHandling, Phase},
};
use tempfile::TempDir;

use crate::ground;

/// How long anything may take; nothing is measured against it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What a job is to be; change what the test is about.
pub(super) struct Plan {
    pub(super) world: u32,
    pub(super) workload: WorkloadPlan,
    pub(super) watchdog: WatchdogPlan,
    pub(super) announce: Vec<u32>,
    pub(super) env: BTreeMap<String, String>,
    /// Where checkpoints go; none: to a directory of the job's own.
    pub(super) checkpoints: Option<PathBuf>,
    /// Namespaces that every rank enters.
    pub(super) entry: Option<Box<dyn Fn(Rank) -> Entry>>,
}

impl Plan {
    /// Endless small all_reduces on the loopback, with deadlines that no healthy rank meets.
    pub(super) fn endless(world: u32) -> Plan {
        Plan {
            world,
            workload: WorkloadPlan {
                collectives: vec![Collective::AllReduce],
                dtype: Dtype::F32,
                bytes: vec![Bytes(16 << 10)],
                iterations: 1_000_000,
                warmup: 2,
                interval: Nanos::ZERO,
                check: true,
                checkpoint: None,
            },
            watchdog: WatchdogPlan {
                init_timeout: Some(Nanos::from(PATIENCE)),
                op_timeout: Some(Nanos::from(PATIENCE)),
                error_handling: ErrorHandling::CleanupOnly,
                poll: Nanos::from_millis(20),
                ..WatchdogPlan::default()
            },
            announce: vec![20],
            env: BTreeMap::from([("NCCL_SOCKET_IFNAME".to_owned(), "lo".to_owned())]),
            checkpoints: None,
            entry: None,
        }
    }

    /// The same on a node whose /dev/shm has this size; none: there are no nodes here (a line says
    /// why). The node takes along whatever a killed rank leaves in there.
    pub(super) fn on_a_node_with(shm: Bytes) -> Option<Plan> {
        let isolation = ground::isolation()?;
        let limits = NodeLimits { shm_size: Some(shm), ..NodeLimits::default() };
        let spec = ground::spec(0, &[0, 1], limits);
        let (node, _port) = VirtualNode::build(&spec, isolation).unwrap();
        let mut plan = Plan::endless(2);
        plan.entry = Some(Box::new(move |rank| node.entry(rank)));
        Some(plan)
    }

    /// With another error-handling mode.
    pub(super) fn handling(mut self, mode: ErrorHandling) -> Plan {
        self.watchdog.error_handling = mode;
        self
    }

    /// With another deadline of operations.
    pub(super) fn op_timeout(mut self, timeout: Duration) -> Plan {
        self.watchdog.op_timeout = Some(timeout.into());
        self
    }

    /// Starts all ranks and waits until they hold what they need.
    pub(super) fn start(self) -> Job {
        let directory = tempfile::tempdir().unwrap();
        let mut ranks: Vec<Player> =
            (0..self.world).map(|rank| self.spawn(rank, &directory)).collect();
        for rank in &mut ranks {
            rank.until("ready", |said| matches!(said, FromRank::Ready { .. }).then_some(()));
        }
        Job { ranks, _plan: self, _directory: directory }
    }

    fn spawn(&self, rank: Rank, directory: &TempDir) -> Player {
        let file = |what: &str| directory.path().join(format!("rank{rank}.{what}"));
        let spec = RankSpec {
            checkpoint: self.workload.checkpoint.as_ref().map(|_| {
                let directory = self.checkpoints.as_deref().unwrap_or(directory.path());
                directory.join(format!("rank{rank}.checkpoint"))
            }),
            backend: Backend::Host,
            rank,
            world: self.world,
            workload: self.workload.clone(),
            watchdog: self.watchdog.clone(),
            announce: self.announce.clone(),
            nccl: None,
            gpu: None,
            blackbox: Some(file("blackbox")),
            blackbox_ops: 64,
        };
        std::fs::write(file("spec"), serde_json::to_vec(&spec).unwrap()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let process = process::spawn(SpawnRequest {
            program: PathBuf::from(env!("CARGO_BIN_EXE_ringbreaker-agent-test")),
            args: ["rank".into(), "--spec".into(), file("spec").into()].into(),
            env: self.env.clone(),
            fds: vec![(theirs.into(), RANK_FD)],
            entry: self.entry.as_ref().map(|entry| entry(rank)),
            ..SpawnRequest::default()
        })
        .unwrap();
        let (said, hears) = channel();
        let reading = BufReader::new(ours.try_clone().unwrap());
        thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let words = serde_json::from_str(&line).expect("a rank speaks the protocol");
                if said.send(words).is_err() {
                    return;
                }
            }
        });
        Player {
            rank,
            process,
            stream: Some(ours),
            hears,
            seen: Vec::new(),
            box_at: file("blackbox"),
        }
    }
}

/// The ranks of a job; those that are left when it is dropped are killed.
pub(super) struct Job {
    pub(super) ranks: Vec<Player>,
    /// Holds the namespaces.
    _plan: Plan,
    _directory: TempDir,
}

impl Job {
    /// Starts all ranks and brings them into counted iterations.
    pub(super) fn steady(plan: Plan) -> Job {
        let mut job = plan.start();
        job.init();
        job.go();
        job
    }

    /// Has rank 0 make the id, and tells these ranks to initialise.
    pub(super) fn init_only(&mut self, of: &[Rank]) {
        let id = self.make_id();
        for rank in of {
            self.ranks[*rank as usize].tell(&ToRank::Init { id: id.clone() });
        }
    }

    pub(super) fn make_id(&mut self) -> String {
        self.ranks[0].tell(&ToRank::MakeId);
        self.ranks[0].until("the id", |said| match said {
            FromRank::Id { id } => Some(id.clone()),
            _ => None,
        })
    }

    pub(super) fn init(&mut self) {
        let all: Vec<Rank> = (0..self.ranks.len() as Rank).collect();
        self.init_only(&all);
    }

    pub(super) fn go(&mut self) {
        for rank in &mut self.ranks {
            rank.until("warm", |said| matches!(said, FromRank::WarmedUp).then_some(()));
        }
        for rank in &mut self.ranks {
            rank.tell(&ToRank::Go);
        }
    }

    /// Waits until every rank has begun the announced iteration.
    pub(super) fn reach(&mut self, iteration: u32) {
        for rank in &mut self.ranks {
            rank.observes("an iteration", |what| {
                (*what == What::IterationReached { iteration }).then_some(())
            });
        }
    }
}

/// One rank process and everything it has said.
pub(super) struct Player {
    rank: Rank,
    pub(super) process: Process,
    stream: Option<UnixStream>,
    hears: Receiver<FromRank>,
    seen: Vec<FromRank>,
    box_at: PathBuf,
}

impl Player {
    pub(super) fn tell(&mut self, words: &ToRank) {
        let mut line = serde_json::to_vec(words).unwrap();
        line.push(b'\n');
        self.stream.as_mut().unwrap().write_all(&line).unwrap();
    }

    /// Closes the socket, as an agent's death does.
    pub(super) fn lose_agent(&mut self) {
        let stream = self.stream.take().unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Waits until the rank has said this, now or earlier.
    pub(super) fn until<T>(&mut self, what: &str, wanted: impl Fn(&FromRank) -> Option<T>) -> T {
        if let Some(found) = self.seen.iter().find_map(&wanted) {
            return found;
        }
        let limit = Instant::now() + PATIENCE;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            match self.hears.recv_timeout(left) {
                Ok(said) => {
                    let found = wanted(&said);
                    self.seen.push(said);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Err(error) => {
                    let (rank, seen) = (self.rank, &self.seen);
                    panic!("rank {rank} never said: {what} ({error}); it said {seen:#?}");
                }
            }
        }
    }

    /// Waits for an observation.
    pub(super) fn observes<T>(&mut self, name: &str, wanted: impl Fn(&What) -> Option<T>) -> T {
        self.until(name, |said| match said {
            FromRank::Observed(Event { what, .. }) => wanted(what),
            _ => None,
        })
    }

    /// Waits for the detection.
    pub(super) fn detects(&mut self) -> Detection {
        self.observes("a detection", |what| match what {
            What::Detected(detection) => Some(detection.clone()),
            _ => None,
        })
    }

    /// Waits until it is in a phase.
    pub(super) fn enters(&mut self, wanted: Phase) {
        self.observes("a phase", |what| {
            (*what == What::PhaseEntered { phase: wanted }).then_some(())
        });
    }

    /// Everything it has observed so far, without waiting longer than this for more.
    pub(super) fn observed_within(&mut self, quiet: Duration) -> Vec<What> {
        while let Ok(said) = self.hears.recv_timeout(quiet) {
            self.seen.push(said);
        }
        let observed = self.seen.iter().filter_map(|said| match said {
            FromRank::Observed(event) => Some(event.what.clone()),
            _ => None,
        });
        observed.collect()
    }

    /// Waits for its end; everything it said is then heard.
    pub(super) fn ends(&mut self) -> ExitStatus {
        let status = self.process.wait_timeout(PATIENCE).unwrap();
        let rank = self.rank;
        let status = status.unwrap_or_else(|| panic!("rank {rank} does not end: {:#?}", self.seen));
        self.observed_within(PATIENCE);
        status
    }

    pub(super) fn black_box(&self) -> OpSummary {
        blackbox::read(&self.box_at).unwrap()
    }
}
