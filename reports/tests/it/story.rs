//! A small language to write case histories with, as a test would tell them.
//!
//! Times are milliseconds after the ranks began; [`EPOCH`] is where CLOCK_MONOTONIC stood then.

use std::collections::BTreeMap;

use ringbreaker_reports::history::{CaseHistory, RunHeader, RunHistory};
use ringbreaker_scenarios::{
    case::{
        CasePlan, ClusterPlan, Expectation, FaultPlan, NodeLimits, RankPlan, Target, Trigger,
        WatchdogPlan, WorkloadPlan,
    },
    event::{
        Detection, EndReason, Event, ExitStatus, HealReason, Isolation, NodeAddress, OpRecord,
        OpSummary, Owner, What,
    },
    fault::{Delay, FaultKind, Kill, LimitMemory, Signal, Stop},
    units::{Bytes, Nanos},
    words::{Backend, Collective, Detector, Dtype, ErrorHandling, Outcome, Phase},
};

/// Where the clock stood when the ranks began.
pub(crate) const EPOCH: u64 = 5_000_000;

/// Milliseconds after the ranks began, as the clock shows them.
pub(crate) fn at(ms: u64) -> Nanos {
    Nanos::from_millis(EPOCH + ms)
}

/// A case in the making.
#[derive(Clone)]
pub(crate) struct Story {
    plan: CasePlan,
    events: Vec<Event>,
}

impl Story {
    /// A case of four ranks on four nodes, in a column.
    pub(crate) fn of(column: &str) -> Story {
        let ranks = 4;
        let plan = CasePlan {
            index: 0,
            scenario: "quick".into(),
            column: column.into(),
            row: BTreeMap::new(),
            repetition: 1,
            seed: 7,
            backend: Backend::Host,
            cluster: ClusterPlan { nodes: ranks, ranks_per_node: 1, rendezvous_port: None },
            workload: WorkloadPlan {
                collectives: vec![Collective::AllReduce],
                dtype: Dtype::F32,
                bytes: vec![Bytes(1 << 20)],
                iterations: 200,
                warmup: 5,
                interval: Nanos::ZERO,
                check: true,
                checkpoint: None,
            },
            settings: BTreeMap::new(),
            ranks: vec![RankPlan::default(); ranks as usize],
            limits: NodeLimits::default(),
            faults: Vec::new(),
            coordinated_abort: false,
            cap: Nanos::from_secs(20),
            expect: Expectation::default(),
        };
        Story { plan, events: Vec::new() }
    }

    pub(crate) fn index(mut self, index: u32) -> Story {
        self.plan.index = index;
        self
    }

    pub(crate) fn repetition(mut self, repetition: u32) -> Story {
        self.plan.repetition = repetition;
        self
    }

    /// A swept setting.
    pub(crate) fn swept(mut self, name: &str, value: &str) -> Story {
        self.plan.row.insert(name.into(), value.into());
        self.plan.settings.insert(name.into(), value.into());
        if name == "error_handling" {
            self = self.mode(value.parse().expect("a mode"));
        }
        self
    }

    pub(crate) fn mode(mut self, mode: ErrorHandling) -> Story {
        for rank in &mut self.plan.ranks {
            rank.watchdog = WatchdogPlan { error_handling: mode, ..WatchdogPlan::default() };
        }
        self
    }

    pub(crate) fn expect(mut self, outcomes: &[Outcome]) -> Story {
        self.plan.expect.outcome = outcomes.to_vec();
        self
    }

    pub(crate) fn expecting(mut self, change: impl FnOnce(&mut Expectation)) -> Story {
        change(&mut self.plan.expect);
        self
    }

    /// A planned fault, at iteration 50.
    pub(crate) fn fault(mut self, kind: FaultKind, target: Target) -> Story {
        let label = match (target.ranks.first(), target.directions.first()) {
            (Some(rank), _) => format!("{} rank {rank}", kind.name()),
            (None, Some((from, to))) => format!("{} link {from} -> {to}", kind.name()),
            _ => kind.name().to_owned(),
        };
        self.plan.faults.push(FaultPlan {
            id: self.plan.faults.len() as u32,
            label,
            kind,
            when: Trigger::Iteration(50),
            target,
            lasts: None,
            lease: Nanos::from_secs(10),
        });
        self
    }

    pub(crate) fn when(mut self, trigger: Trigger) -> Story {
        self.plan.faults.last_mut().expect("a fault").when = trigger;
        self
    }

    pub(crate) fn kill(self, rank: u32) -> Story {
        self.fault(FaultKind::Kill(Kill { signal: Signal::Kill }), ranks(&[rank]))
    }

    pub(crate) fn stop(self, rank: u32) -> Story {
        self.fault(FaultKind::Stop(Stop {}), ranks(&[rank]))
    }

    pub(crate) fn limit_memory(self, rank: u32) -> Story {
        self.fault(
            FaultKind::LimitMemory(LimitMemory { leave: Bytes(0), ..LimitMemory::default() }),
            ranks(&[rank]),
        )
    }

    pub(crate) fn delay(self, from: u32, to: u32) -> Story {
        let kind = FaultKind::Delay(Delay { by: Nanos::from_millis(5), jitter: Nanos::ZERO });
        self.fault(kind, Target { directions: vec![(from, to)], ..Target::default() })
    }

    pub(crate) fn event(mut self, ms: u64, rank: Option<u32>, what: What) -> Story {
        self.events.push(Event { at: at(ms), rank, what });
        self
    }

    fn each_rank(self, ms: u64, what: impl Fn(u32) -> What) -> Story {
        let world = self.plan.world();
        (0..world).fold(self, |story, rank| story.event(ms, Some(rank), what(rank)))
    }

    /// Ranks started and told to begin, not steady yet.
    pub(crate) fn began(self) -> Story {
        let nodes = (0..self.plan.cluster.nodes)
            .map(|node| NodeAddress { node, address: format!("10.77.0.{}", node + 1) })
            .collect();
        let backend = self.plan.backend;
        let prepared = What::Prepared { backend, isolation: Isolation::Namespaces, nodes };
        let versions = [("host".to_owned(), "0.1.0".to_owned())].into();
        self.event(0, None, prepared)
            .event(0, Some(0), What::Stack { versions })
            .each_rank(0, |rank| What::RankStarted { pid: 4000 + rank })
            .event(0, None, What::Began)
            .each_rank(1, |_| What::PhaseEntered { phase: Phase::Init })
    }

    /// The same, and steady after 100 ms.
    pub(crate) fn steady(self) -> Story {
        self.began()
            .event(60, Some(0), What::Transport { name: "NET/Socket".into() })
            .each_rank(100, |_| What::PhaseEntered { phase: Phase::Steady })
            .event(100, None, What::Steady)
    }

    pub(crate) fn triggered(self, ms: u64) -> Story {
        self.event(ms, None, What::FaultTriggered { fault: 0 })
    }

    /// The agent did not inject it.
    pub(crate) fn unexposed(self, ms: u64, reason: &str) -> Story {
        self.event(ms, None, What::FaultUnexposed { fault: 0, reason: reason.into() })
    }

    /// Triggered, injected, and witnessed one millisecond later.
    pub(crate) fn strikes(self, ms: u64, evidence: &str) -> Story {
        self.triggered(ms - 1).event(ms, None, What::FaultInjected { fault: 0 }).event(
            ms,
            None,
            What::FaultWitnessed { fault: 0, evidence: evidence.into() },
        )
    }

    pub(crate) fn healed(self, ms: u64, because: HealReason) -> Story {
        self.event(ms, None, What::FaultHealed { fault: 0, because })
    }

    pub(crate) fn detected(
        self,
        ms: u64,
        rank: u32,
        detector: Detector,
        code: Option<i32>,
    ) -> Story {
        let message = match detector {
            Detector::AsyncError => {
                "socketProgress: Connection closed by remote peer 10.77.0.2<41234>"
            }
            Detector::RankWatchdog => {
                "operation 55 (all_reduce) ran for longer than op_timeout = 2s"
            }
            _ => "",
        };
        self.event(
            ms,
            Some(rank),
            What::Detected(Detection {
                detector,
                phase: Phase::Steady,
                code,
                message: message.into(),
                op: Some(55),
                blames: None,
            }),
        )
    }

    pub(crate) fn async_error(self, ms: u64, rank: u32) -> Story {
        self.detected(ms, rank, Detector::AsyncError, Some(6))
    }

    pub(crate) fn timed_out(self, ms: u64, rank: u32) -> Story {
        self.detected(ms, rank, Detector::RankWatchdog, None)
    }

    pub(crate) fn abort(self, rank: u32, from: u64, to: u64) -> Story {
        self.abort_begins(rank, from).event(to, Some(rank), What::AbortEnded { code: 0 })
    }

    pub(crate) fn abort_begins(self, rank: u32, ms: u64) -> Story {
        self.event(ms, Some(rank), What::AbortBegan)
    }

    fn gone(self, ms: u64, rank: u32, status: ExitStatus, by_harness: bool) -> Story {
        self.event(ms, Some(rank), What::RankExited { status, by_harness })
    }

    pub(crate) fn exit(self, ms: u64, rank: u32, code: i32) -> Story {
        self.gone(ms, rank, ExitStatus::Code(code), false)
    }

    pub(crate) fn signal(self, ms: u64, rank: u32, signal: i32) -> Story {
        self.gone(ms, rank, ExitStatus::Signal(signal), false)
    }

    pub(crate) fn killed_by_harness(self, ms: u64, rank: u32) -> Story {
        self.gone(ms, rank, ExitStatus::Signal(9), true)
    }

    pub(crate) fn all_exit(self, ms: u64, code: i32) -> Story {
        self.each_rank(ms, |_| What::RankExited {
            status: ExitStatus::Code(code),
            by_harness: false,
        })
    }

    pub(crate) fn log(self, ms: u64, rank: u32, line: &str) -> Story {
        self.event(ms, Some(rank), What::Log { line: line.into() })
    }

    pub(crate) fn left(self, ms: u64, of: Owner, what: &str) -> Story {
        self.event(ms, None, What::LeftOver { of, what: what.into() })
    }

    /// Operations of every rank from 100 ms on, one after the other: `times` are their lengths in
    /// microseconds.
    pub(crate) fn ops(self, end: u64, times: &[u64]) -> Story {
        let summary = op_summary(times);
        self.each_rank(end, |_| What::Ops(summary.clone()))
    }

    pub(crate) fn ended(self, ms: u64, because: EndReason) -> CaseHistory {
        self.event(ms, None, What::Ended { because }).torn()
    }

    /// The history as it is, without an end.
    pub(crate) fn torn(self) -> CaseHistory {
        CaseHistory { plan: self.plan, attempt: 1, events: self.events }
    }
}

/// Rank targets.
pub(crate) fn ranks(ranks: &[u32]) -> Target {
    Target { ranks: ranks.to_vec(), ..Target::default() }
}

fn op_summary(times: &[u64]) -> OpSummary {
    let mut clock = at(100);
    let last = times
        .iter()
        .enumerate()
        .map(|(number, time)| {
            let enqueued = clock;
            clock = clock + Nanos(time * 1000);
            OpRecord {
                op: number as u64,
                collective: Collective::AllReduce,
                bytes: Bytes(1 << 20),
                enqueued,
                ended: Some(clock),
                right: Some(true),
                warmup: number < 5,
            }
        })
        .collect();
    let count = times.len() as u64;
    OpSummary { enqueued: count, finished: count, checked_right: count, checked_wrong: 0, last }
}

/// Ranks 0, 2 and 3 notice the killed rank 1 by asynchronous errors, abort, and end.
pub(crate) fn kill_noticed() -> Story {
    Story::of("kill")
        .kill(1)
        .mode(ErrorHandling::Teardown)
        .expect(&[Outcome::FailedClean])
        .steady()
        .strikes(500, "pid 4001 is a zombie")
        .signal(500, 1, 9)
        .async_error(504, 2)
        .abort(2, 505, 1030)
        .signal(1032, 2, 6)
        .async_error(602, 0)
        .abort(0, 603, 1100)
        .signal(1101, 0, 6)
        .async_error(1115, 3)
        .abort(3, 1116, 1640)
        .signal(1642, 3, 6)
        .log(504, 2, "NCCL WARN socketProgress: Connection closed by remote peer 10.77.0.2<41234>")
        .ops(1650, &[40_000, 8_000, 9_000, 8_000, 9_000, 8_500, 9_100, 8_300, 300_000])
        .healed(1650, HealReason::CaseEnded)
}

/// Rank 1 is stopped, nobody has a deadline, everybody waits until the cap.
pub(crate) fn stop_unnoticed() -> Story {
    [0, 2, 3]
        .into_iter()
        .fold(
            Story::of("stop")
                .stop(1)
                .mode(ErrorHandling::None)
                .expect(&[Outcome::FailedClean])
                .expecting(|expect| expect.detected_within = Some(Nanos::from_secs(5)))
                .steady()
                .strikes(500, "pid 4001 is in state T"),
            |story, rank| story.killed_by_harness(20_000, rank),
        )
        .killed_by_harness(20_000, 1)
        .healed(20_001, HealReason::CaseEnded)
}

/// The node lacks what the case needs.
pub(crate) fn not_runnable() -> Story {
    let reason = "limit_memory needs a cgroup, and /sys/fs/cgroup is read-only here".into();
    Story::of("memory").limit_memory(1).event(0, None, What::Unavailable { reason })
}

/// A header with fixed values.
pub(crate) fn header() -> RunHeader {
    RunHeader {
        id: "20261201-051530-3fa2".into(),
        scenario: "quick".into(),
        summary: "five kinds of fault hit a four-rank all-reduce".into(),
        scenario_text: "summary = \"five kinds of fault\"\n[cluster]\nnodes = 4\n".into(),
        seed: 7,
        backend: Backend::Host,
        started: "2026-12-01T05:15:30Z".into(),
        ended: Some("2026-12-01T05:16:12Z".into()),
        command: ["ringbreaker", "run", "quick", "--lanes", "4"].map(str::to_owned).to_vec(),
        version: "0.1.0".into(),
        commit: Some("6f824d2".into()),
        environment: [("kernel", "6.18.0"), ("cpus", "2"), ("memory", "16 GiB")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        probe: "network namespaces: yes\ncgroups: v1\nGPUs: none\n".into(),
        notes: vec!["no GPU here: the host stand-in is used".into()],
    }
}

/// A run of these cases, numbered in order.
pub(crate) fn run(cases: Vec<CaseHistory>) -> RunHistory {
    let cases = cases
        .into_iter()
        .zip(0..)
        .map(|(mut case, index)| {
            case.plan.index = index;
            case
        })
        .collect();
    RunHistory { header: header(), cases, pending: Vec::new() }
}

/// The three cases that every document is held to.
pub(crate) fn three_cases() -> RunHistory {
    let of = |story: Story, mode: &str| story.swept("error_handling", mode);
    run(vec![
        of(kill_noticed(), "teardown").ended(1650, EndReason::RanksGone),
        of(stop_unnoticed(), "none").ended(20_002, EndReason::Cap),
        of(not_runnable(), "none").ended(0, EndReason::Unavailable),
    ])
}
