//! An agent is killed while a fault is in force: its guard, and nobody else, takes everything back.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use ringbreaker_agent::{
    journal::Undo,
    recover,
    sys::{
        procfs,
        signal::{self, Signal},
    },
};
use ringbreaker_scenarios::{
    case::Target,
    fault::{
        Delay, ExhaustPorts, ExhaustShmInodes, FaultKind, FillShm, FillStorage, Kill, LimitMemory,
        LimitShm, Loss, MuteListener, NarrowPorts, Partition, PressPageCache, Rate, ReadOnlyShm,
        ReadOnlyStorage, ShiftClock, SlowLog, SlowStorage, StaleShm, Stop, TakePort,
    },
    units::{Bytes, Nanos},
};
use serde::Deserialize;

use super::rig::{PATIENCE, PROGRAM, can_isolate, isolation, link, node, plan, rank, within};

/// What the agent tells when its fault is in force.
#[derive(Debug, Deserialize)]
struct InForce {
    cgroups: Vec<PathBuf>,
    /// Process ids and start times; the last one is not tied to the agent by the kernel.
    ranks: Vec<(u32, u64)>,
    undo: Vec<Undo>,
    guard: u32,
}

/// An agent in a directory of its own under a test's state directory.
struct Agent {
    child: Child,
    state: tempfile::TempDir,
    in_force: InForce,
}

impl Agent {
    fn with(kind: FaultKind, target: Target) -> Agent {
        let state = tempfile::tempdir().unwrap();
        let plan = serde_json::to_string(&plan(kind, target)).unwrap();
        let mut child = Command::new(PROGRAM)
            .arg("agent")
            .arg(state.path().join("agent-crash"))
            .arg(plan)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let in_force = serde_json::from_str(&said).unwrap_or_else(|_| panic!("agent: {said}"));
        Agent { child, state, in_force }
    }

    fn directory(&self) -> PathBuf {
        self.state.path().join("agent-crash")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the guard has removed the agent's directory, its last act.
    fn wait_for_guard(&self) {
        let gone = || (!self.directory().exists()).then_some(());
        assert!(within(PATIENCE, gone).is_some(), "{}", left(&self.directory()));
    }

    fn nothing_is_left(&self) {
        for cgroup in &self.in_force.cgroups {
            assert!(!cgroup.exists(), "{}", cgroup.display());
        }
        for undo in &self.in_force.undo {
            if let Undo::KillProcess { pid, start_time } = undo {
                assert!(ended(*pid, *start_time), "helper {pid} lives");
            }
        }
        let (pid, start_time) = self.in_force.ranks[0];
        assert!(within(PATIENCE, || ended(pid, start_time).then_some(())).is_some());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Harmless when it is gone already; the untied rank is nobody else's to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (pid, start_time) in &self.in_force.ranks {
            let _ = signal::send(*pid, *start_time, Signal::SIGKILL);
        }
    }
}

fn ended(pid: u32, start_time: u64) -> bool {
    matches!(procfs::state(pid, start_time).unwrap(), None | Some('Z' | 'X'))
}

fn left(directory: &Path) -> String {
    let journal = fs::read_to_string(directory.join(recover::JOURNAL)).unwrap_or_default();
    format!("the guard has not finished; the journal reads:\n{journal}")
}

/// One fault of every kind that needs no GPU.
fn kinds() -> Vec<(FaultKind, Target)> {
    let delay = Delay { by: Nanos::from_millis(20), jitter: Nanos::ZERO };
    vec![
        (FaultKind::Kill(Kill { signal: ringbreaker_scenarios::fault::Signal::Kill }), rank(1)),
        (FaultKind::Stop(Stop {}), rank(1)),
        (FaultKind::TakePort(TakePort::default()), node(0)),
        (FaultKind::MuteListener(MuteListener { port: None }), node(0)),
        (FaultKind::ExhaustPorts(ExhaustPorts { leave: 0 }), node(0)),
        (FaultKind::NarrowPorts(NarrowPorts { to: 4 }), node(0)),
        (FaultKind::LimitShm(LimitShm { to: Bytes(8 << 20) }), node(0)),
        (FaultKind::FillShm(FillShm { leave: Bytes(1 << 20) }), node(0)),
        (FaultKind::ExhaustShmInodes(ExhaustShmInodes { leave: 0 }), node(0)),
        (FaultKind::ReadOnlyShm(ReadOnlyShm {}), node(0)),
        (FaultKind::StaleShm(StaleShm { files: 2, each: Bytes(1 << 20) }), node(0)),
        (
            FaultKind::LimitMemory(LimitMemory { leave: Bytes(8 << 20), ..LimitMemory::default() }),
            rank(0),
        ),
        (
            FaultKind::LimitMemory(LimitMemory { leave: Bytes(0), ..LimitMemory::default() }),
            rank(0),
        ),
        (
            FaultKind::LimitMemory(LimitMemory {
                leave: Bytes(8 << 20),
                rate: Some(Bytes(256 << 20)),
                swap: false,
            }),
            rank(0),
        ),
        (
            FaultKind::PressPageCache(PressPageCache {
                room: Bytes(16 << 20),
                rate: Bytes(512 << 20),
            }),
            rank(0),
        ),
        (
            FaultKind::ShiftClock(ShiftClock {
                ahead: Nanos::from_secs(3600),
                behind: Nanos::ZERO,
            }),
            rank(0),
        ),
        (FaultKind::FillStorage(FillStorage { leave: Bytes(0) }), node(0)),
        (FaultKind::ReadOnlyStorage(ReadOnlyStorage {}), node(0)),
        (FaultKind::SlowStorage(SlowStorage { by: Nanos::from_millis(100) }), node(0)),
        (FaultKind::SlowLog(SlowLog { rate: Bytes(0) }), rank(0)),
        (FaultKind::Delay(delay), link(0, 1)),
        (FaultKind::Loss(Loss { percent: 50.0 }), link(0, 1)),
        (FaultKind::Rate(Rate { mbit: 0.1 }), link(0, 1)),
        (FaultKind::Partition(Partition {}), link(0, 1)),
    ]
}

#[test]
fn every_kind_is_taken_back_by_the_guard_when_its_agent_is_killed() {
    if !can_isolate("faults after the death of their agent") {
        return;
    }
    let tested = kinds();
    for name in FaultKind::NAMES {
        if matches!(*name, "hold_gpu_memory" | "fragment_gpu_memory") {
            println!("SKIPPED: {name} after the death of its agent: needs a GPU");
        } else {
            assert!(tested.iter().any(|(kind, _)| kind.name() == *name), "{name} is not tested");
        }
    }
    for (kind, target) in tested {
        let name = kind.name();
        if matches!(name, "limit_memory" | "press_page_cache" | "slow_storage")
            && !isolation().reasons.is_empty()
        {
            println!("SKIPPED: {name} after the death of its agent: {:?}", isolation().reasons);
            continue;
        }
        let mut agent = Agent::with(kind, target);
        agent.kill();
        agent.wait_for_guard();
        agent.nothing_is_left();
    }
}

#[test]
fn a_stopped_rank_that_outlives_its_agent_is_continued_by_the_guard() {
    if !can_isolate("a stopped rank after the death of its agent") {
        return;
    }
    let mut agent = Agent::with(FaultKind::Stop(Stop {}), rank(1));
    let (pid, start_time) = agent.in_force.ranks[1];
    assert_eq!(procfs::state(pid, start_time).unwrap(), Some('T'));
    agent.kill();
    agent.wait_for_guard();
    let state = procfs::state(pid, start_time).unwrap();
    assert!(!matches!(state, None | Some('T' | 'Z')), "state {state:?}");
}

#[test]
fn recover_takes_back_what_an_agent_and_its_guard_left_when_both_were_killed() {
    if !can_isolate("recovery by hand") {
        return;
    }
    let mut agent = Agent::with(FaultKind::Stop(Stop {}), rank(1));
    let (pid, start_time) = agent.in_force.ranks[1];
    let guard = agent.in_force.guard;
    let started = procfs::start_time(guard).unwrap().unwrap();
    assert!(signal::send(guard, started, Signal::SIGKILL).unwrap());
    assert!(within(PATIENCE, || ended(guard, started).then_some(())).is_some());
    agent.kill();
    assert_eq!(procfs::state(pid, start_time).unwrap(), Some('T'), "nobody has healed yet");

    let items = recover::recover(agent.state.path()).unwrap();
    assert!(items.iter().all(|item| item.result.is_ok()), "{items:?}");
    assert!(items.iter().any(|item| item.what.contains(&pid.to_string())), "{items:?}");
    let running = procfs::state(pid, start_time).unwrap();
    assert!(!matches!(running, None | Some('T' | 'Z')), "state {running:?}");
    assert!(!agent.directory().exists());
    agent.nothing_is_left();
    assert!(recover::recover(agent.state.path()).unwrap().is_empty());
}
