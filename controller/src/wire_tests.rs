//! Field by field: what a plan says is what an agent is told.

use ringbreaker_scenarios::{
    fault::{
        Delay, ExhaustPorts, ExhaustShmInodes, FillShm, FillStorage, FragmentGpuMemory,
        HoldGpuMemory, Kill, LimitMemory, LimitShm, Loss, MuteListener, NarrowPorts, Partition,
        PortRole, PressPageCache, Rate, ReadOnlyShm, ReadOnlyStorage, ShiftClock, Signal, SlowLog,
        SlowStorage, StaleShm, Stop, TakePort,
    },
    units::{Bytes, Nanos},
    words::{ErrorHandling, Phase},
};
use v1::fault::Kind;

use super::*;
use crate::run::sample;

fn ground(directory: &Path) -> Ground<'_> {
    Ground { run: "r1", nccl: Some(Path::new("/opt/libnccl.so.2")), directory, private_mps: true }
}

fn prepared(plan: &CasePlan) -> v1::Prepare {
    let order = Order::Prepare(CaseRef { index: plan.index, attempt: 2 });
    match action(&order, plan, ground(Path::new("/runs/r1/cases/0004"))) {
        v1::command::Action::Prepare(prepare) => prepare,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_arrives_with_everything_that_an_agent_needs() {
    let mut plan = sample::plan(4);
    plan.cluster.rendezvous_port = Some(29_500);
    plan.limits.shm_size = Some(Bytes(64 << 20));
    plan.limits.nofile = Some(256);
    plan.limits.sysctls.insert("tcp_retries2".into(), "3".into());
    let sent = prepared(&plan);
    assert_eq!(sent.case, Some(v1::CaseRef { run: "r1".into(), index: 4, attempt: 2 }));
    assert_eq!((sent.backend.as_str(), sent.nccl_path.as_str()), ("host", "/opt/libnccl.so.2"));
    assert_eq!((sent.nodes, sent.ranks_per_node, sent.rendezvous_port), (2, 1, 29_500));
    assert_eq!((sent.seed, sent.private_mps), (7, true));
    assert_eq!(sent.settings, ["NCCL_TIMEOUT"]);
    assert_eq!(sent.directory, "/runs/r1/cases/0004");
    let workload = sent.workload.unwrap();
    assert_eq!(workload.collectives, ["all_reduce"]);
    assert_eq!((workload.dtype.as_str(), workload.bytes), ("f32", vec![1 << 10]));
    assert_eq!((workload.iterations, workload.warmup, workload.check), (10, 2, true));
    assert_eq!(workload.interval_ns, 10_000_000);
    let limits = sent.limits.unwrap();
    assert_eq!((limits.shm_size, limits.memory_limit), (Some(64 << 20), None));
    assert_eq!((limits.nofile, limits.sysctls["tcp_retries2"].as_str()), (Some(256), "3"));
}

#[test]
fn each_rank_gets_its_own_environment_and_watchdog() {
    let mut plan = sample::plan(0);
    plan.ranks[1].env.insert("NCCL_DEBUG".into(), "INFO".into());
    plan.ranks[1].watchdog = WatchdogPlan {
        init_timeout: Some(Nanos(1)),
        first_op_timeout: Some(Nanos(2)),
        op_timeout: None,
        error_handling: ErrorHandling::CleanupOnly,
        blocking_wait: true,
        poll: Nanos(3),
        dump_wait: Nanos(4),
    };
    let ranks = prepared(&plan).ranks;
    assert_eq!(ranks.len(), 2);
    assert!(ranks[0].env.is_empty());
    assert_eq!(ranks[1].env["NCCL_DEBUG"], "INFO");
    let want = v1::Watchdog {
        init_timeout_ns: Some(1),
        first_op_timeout_ns: Some(2),
        op_timeout_ns: None,
        error_handling: "cleanup-only".into(),
        blocking_wait: true,
        poll_ns: 3,
        dump_wait_ns: 4,
    };
    assert_eq!(ranks[1].watchdog, Some(want));
}

/// Pairs of what a plan says and what is sent.
type Pairs = Vec<(FaultKind, Kind)>;

fn processes_ports_and_shm() -> Pairs {
    let (five, six) = (Bytes(5), Bytes(6));
    vec![
        (
            FaultKind::Kill(Kill { signal: Signal::Term }),
            Kind::Kill(v1::Kill { signal: "TERM".into() }),
        ),
        (FaultKind::Stop(Stop {}), Kind::Stop(v1::Stop {})),
        (
            FaultKind::TakePort(TakePort { port: Some(80), role: PortRole::Rendezvous }),
            Kind::TakePort(v1::TakePort { port: 80, role: "rendezvous".into() }),
        ),
        (
            FaultKind::MuteListener(MuteListener { port: Some(81) }),
            Kind::MuteListener(v1::MuteListener { port: 81 }),
        ),
        (
            FaultKind::ExhaustPorts(ExhaustPorts { leave: 2 }),
            Kind::ExhaustPorts(v1::ExhaustPorts { leave: 2 }),
        ),
        (
            FaultKind::NarrowPorts(NarrowPorts { to: 4 }),
            Kind::NarrowPorts(v1::NarrowPorts { to: 4 }),
        ),
        (FaultKind::LimitShm(LimitShm { to: five }), Kind::LimitShm(v1::LimitShm { to_bytes: 5 })),
        (FaultKind::FillShm(FillShm { leave: six }), Kind::FillShm(v1::FillShm { leave_bytes: 6 })),
        (
            FaultKind::ExhaustShmInodes(ExhaustShmInodes { leave: 3 }),
            Kind::ExhaustShmInodes(v1::ExhaustShmInodes { leave: 3 }),
        ),
        (FaultKind::ReadOnlyShm(ReadOnlyShm {}), Kind::ReadOnlyShm(v1::ReadOnlyShm {})),
        (
            FaultKind::StaleShm(StaleShm { files: 2, each: five }),
            Kind::StaleShm(v1::StaleShm { files: 2, each_bytes: 5 }),
        ),
    ]
}

fn memory_clock_and_storage() -> Pairs {
    let (five, six) = (Bytes(5), Bytes(6));
    vec![
        (
            FaultKind::LimitMemory(LimitMemory { leave: five, rate: Some(six), swap: true }),
            Kind::LimitMemory(v1::LimitMemory { leave_bytes: 5, rate_bytes: Some(6), swap: true }),
        ),
        (
            FaultKind::PressPageCache(PressPageCache { room: five, rate: six }),
            Kind::PressPageCache(v1::PressPageCache { room_bytes: 5, rate_bytes: 6 }),
        ),
        (
            FaultKind::HoldGpuMemory(HoldGpuMemory { leave: six }),
            Kind::HoldGpuMemory(v1::HoldGpuMemory { leave_bytes: 6 }),
        ),
        (
            FaultKind::FragmentGpuMemory(FragmentGpuMemory { leave: six, piece: five }),
            Kind::FragmentGpuMemory(v1::FragmentGpuMemory { leave_bytes: 6, piece_bytes: 5 }),
        ),
        (
            FaultKind::ShiftClock(ShiftClock { ahead: Nanos(1), behind: Nanos(0) }),
            Kind::ShiftClock(v1::ShiftClock { ahead_ns: 1, behind_ns: 0 }),
        ),
        (
            FaultKind::FillStorage(FillStorage { leave: five }),
            Kind::FillStorage(v1::FillStorage { leave_bytes: 5 }),
        ),
        (
            FaultKind::ReadOnlyStorage(ReadOnlyStorage {}),
            Kind::ReadOnlyStorage(v1::ReadOnlyStorage {}),
        ),
        (
            FaultKind::SlowStorage(SlowStorage { by: Nanos(6) }),
            Kind::SlowStorage(v1::SlowStorage { by_ns: 6 }),
        ),
        (FaultKind::SlowLog(SlowLog { rate: six }), Kind::SlowLog(v1::SlowLog { rate_bytes: 6 })),
    ]
}

fn network() -> Pairs {
    vec![
        (
            FaultKind::Delay(Delay { by: Nanos(7), jitter: Nanos(8) }),
            Kind::Delay(v1::Delay { by_ns: 7, jitter_ns: 8 }),
        ),
        (FaultKind::Loss(Loss { percent: 1.5 }), Kind::Loss(v1::Loss { percent: 1.5 })),
        (FaultKind::Rate(Rate { mbit: 100.0 }), Kind::Rate(v1::Rate { mbit: 100.0 })),
        (FaultKind::Partition(Partition {}), Kind::Partition(v1::Partition {})),
    ]
}

#[test]
fn every_kind_of_fault_has_its_message_with_its_parameters() {
    let pairs: Pairs = [processes_ports_and_shm(), memory_clock_and_storage(), network()].concat();
    let walked: Vec<&str> = pairs.iter().map(|(kind, _)| kind.name()).collect();
    assert_eq!(walked, FaultKind::NAMES, "this table walks every kind");
    for (given, want) in pairs {
        let mut plan = sample::plan(0);
        plan.faults[0].kind = given;
        assert_eq!(prepared(&plan).faults[0].kind, Some(want));
    }
}

#[test]
fn triggers_targets_and_lifetimes_of_faults_are_sent() {
    let mut plan = sample::plan(0);
    let fault = &mut plan.faults[0];
    fault.target = Target { ranks: vec![1], nodes: vec![0], directions: vec![(0, 1)] };
    fault.lasts = Some(Nanos(9));
    let sent = prepared(&plan).faults.remove(0);
    assert_eq!((sent.id, sent.label.as_str()), (0, "kill rank 1"));
    assert_eq!((sent.lasts_ns, sent.lease_ns), (Some(9), 10_000_000_000));
    let target = sent.target.unwrap();
    assert_eq!((target.ranks, target.nodes), (vec![1], vec![0]));
    assert_eq!(target.directions, [v1::Direction { from: 0, to: 1 }]);
    use v1::trigger::When;
    for (given, want) in [
        (Trigger::Iteration(3), When::Iteration(3)),
        (Trigger::After(Nanos(4)), When::AfterNs(4)),
        (Trigger::Phase(Phase::FirstOp), When::Phase("first-op".into())),
    ] {
        assert_eq!(trigger(given).when, Some(want));
    }
}

#[test]
fn the_reason_of_a_finish_is_the_word_that_events_use() {
    for why in [
        EndReason::RanksGone,
        EndReason::Cap,
        EndReason::Interrupted,
        EndReason::AgentLost,
        EndReason::Unexposed,
        EndReason::Unavailable,
    ] {
        assert_eq!(serde_json::to_value(why).unwrap(), because(why));
    }
}
