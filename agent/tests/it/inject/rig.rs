//! Nodes, a fabric and ranks of a test's own.

use std::{
    io::{self, PipeReader, Read},
    os::fd::AsFd,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, poll};
use ringbreaker_agent::{
    fabric::Fabric,
    inject::{self, Ground, InjectError, Injector, RankProcess},
    node::{self, NodeSpec, Probed, VirtualNode},
    sys::process::{self, Process, SpawnRequest, Stdio},
};
use ringbreaker_scenarios::{
    case::{FaultPlan, NodeLimits, Target, Trigger},
    event::Isolation,
    fault::FaultKind,
    units::{Bytes, Nanos},
};

/// The program of this crate's tests.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ringbreaker-agent-test");
/// How long anything may take; nothing is measured against it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A case in miniature: two nodes, one rank on each.
pub(super) struct Rig {
    pub(super) ranks: Vec<Process>,
    pub(super) beats: Vec<PipeReader>,
    pub(super) ground: Ground,
    pub(super) nodes: Arc<Vec<VirtualNode>>,
    _directory: tempfile::TempDir,
}

/// What isolation this machine gives, found out once.
pub(super) fn isolation() -> &'static Probed {
    static PROBED: OnceLock<Probed> = OnceLock::new();
    PROBED.get_or_init(node::isolation)
}

/// Prints why a test cannot run here; true: it can.
pub(super) fn can_isolate(test: &str) -> bool {
    let Probed { isolation, reasons } = isolation();
    let can = *isolation != Isolation::Plain;
    if !can {
        println!("SKIPPED: {test}: no namespaces: {}", reasons.join("; "));
    }
    can
}

impl Rig {
    /// Each rank holds this much memory; rank 0 sends packets to node 1 all the time.
    pub(super) fn new(hold: Bytes, limits: &NodeLimits) -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut nodes = Vec::new();
        let mut ports = Vec::new();
        let directory = tempfile::tempdir().unwrap();
        for node in 0..2 {
            let storage = directory.path().join(format!("storage{node}"));
            std::fs::create_dir(&storage).unwrap();
            let spec = NodeSpec {
                node,
                ranks: vec![node],
                limits: limits.clone(),
                storage: Some(storage),
                tag: format!("test-{}-{number}", std::process::id()),
            };
            let (built, port) = VirtualNode::build(&spec, isolation().isolation).unwrap();
            nodes.push(built);
            ports.extend(port);
        }
        let fabric = (!ports.is_empty()).then(|| Arc::new(Fabric::start(ports, 7).unwrap()));
        let mut ranks = Vec::new();
        let mut beats = Vec::new();
        for node in &nodes {
            let (reader, writer) = io::pipe().unwrap();
            let hold = hold.0.to_string();
            let peer = format!("{}:9", nodes[1].address());
            let send_to = (node.node() == 0).then_some(&*peer);
            let args = ["rank", &*hold].into_iter().chain(send_to).map(Into::into).collect();
            let request = SpawnRequest {
                program: PathBuf::from(PROGRAM),
                args,
                stdout: Stdio::Fd(writer.into()),
                entry: Some(node.entry(node.node())),
                ..SpawnRequest::default()
            };
            ranks.push(process::spawn(request).unwrap());
            beats.push(reader);
        }
        let nodes = Arc::new(nodes);
        let processes = (0..).zip(&ranks).map(|(rank, process)| RankProcess {
            rank,
            node: rank,
            pid: process.pid,
            start_time: process.start_time,
            clock_ahead: None,
        });
        let ground = Ground::new(
            Arc::clone(&nodes),
            fabric,
            processes.collect(),
            Some(4700),
            directory.path().to_owned(),
        )
        .with_program(PathBuf::from(PROGRAM));
        let rig = Rig { ranks, beats, ground, nodes, _directory: directory };
        (0..2).for_each(|rank| assert!(rig.beats_within(rank, PATIENCE), "rank {rank} begins"));
        rig
    }

    pub(super) fn small() -> Rig {
        Rig::new(Bytes(4096), &NodeLimits::default())
    }

    pub(super) fn injector(
        &self,
        kind: FaultKind,
        target: Target,
    ) -> Result<Box<dyn Injector>, InjectError> {
        inject::injector(&plan(kind, target), &self.ground)
    }

    /// An injected fault with its evidence.
    pub(super) fn bitten(&self, kind: FaultKind, target: Target) -> (Box<dyn Injector>, String) {
        self.bitten_as(0, kind, target)
    }

    /// The same, as the fault of the case with this number.
    pub(super) fn bitten_as(
        &self,
        id: u32,
        kind: FaultKind,
        target: Target,
    ) -> (Box<dyn Injector>, String) {
        let plan = FaultPlan { id, ..plan(kind, target) };
        let mut injector = inject::injector(&plan, &self.ground).unwrap();
        injector.inject().unwrap();
        let evidence = within(PATIENCE, || injector.witness()).expect("the fault has a witness");
        (injector, evidence)
    }

    /// Whether the rank beats within this time, counted from now.
    pub(super) fn beats_within(&self, rank: usize, time: Duration) -> bool {
        let mut reader = &self.beats[rank];
        let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        let mut old = [0; 65536];
        if poll(&mut fds, 0_u8).unwrap() > 0 && reader.read(&mut old).unwrap() == 0 {
            return false;
        }
        let ms = u16::try_from(time.as_millis()).unwrap();
        let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, ms).unwrap() > 0 && reader.read(&mut old).unwrap() > 0
    }

    /// Runs `work` inside a node.
    pub(super) fn inside<T: Send>(&self, node: usize, work: impl FnOnce() -> T + Send) -> T {
        self.nodes[node].inside(work).unwrap()
    }
}

pub(super) fn plan(kind: FaultKind, target: Target) -> FaultPlan {
    FaultPlan {
        id: 0,
        label: kind.name().to_owned(),
        kind,
        when: Trigger::After(Nanos::ZERO),
        target,
        lasts: None,
        lease: Nanos::from_secs(60),
    }
}

pub(super) fn rank(rank: u32) -> Target {
    Target { ranks: vec![rank], ..Target::default() }
}

pub(super) fn node(node: u32) -> Target {
    Target { nodes: vec![node], ..Target::default() }
}

pub(super) fn link(from: u32, to: u32) -> Target {
    Target { directions: vec![(from, to)], ..Target::default() }
}

/// Asks until there is an answer.
pub(super) fn within<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        match ask() {
            Some(answer) => return Some(answer),
            None if Instant::now() > deadline => return None,
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}
