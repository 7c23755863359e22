//! What is understood, and what is refused.

use ringbreaker_proto::v1::{fault::Kind, trigger::When};
use ringbreaker_scenarios::{
    case::{CheckpointPlan, Trigger},
    fault::FaultKind,
    words::{CheckpointRanks, Collective, Dtype, ErrorHandling, Phase},
};

use super::*;

fn prepare() -> v1::Prepare {
    let watchdog = v1::Watchdog {
        op_timeout_ns: Some(5),
        error_handling: "teardown".into(),
        poll_ns: 100,
        ..v1::Watchdog::default()
    };
    let rank = v1::RankSetup {
        env: [("NCCL_DEBUG".to_owned(), "WARN".to_owned())].into(),
        watchdog: Some(watchdog),
    };
    v1::Prepare {
        case: Some(v1::CaseRef { run: "r".into(), index: 3, attempt: 2 }),
        backend: "host".into(),
        nodes: 2,
        ranks_per_node: 1,
        rendezvous_port: 29_500,
        workload: Some(v1::Workload {
            collectives: vec!["all_reduce".into(), "send_recv".into()],
            dtype: "bf16".into(),
            bytes: vec![1024],
            iterations: 9,
            warmup: 2,
            interval_ns: 7,
            check: true,
            checkpoint: Some(v1::Checkpoint { every: 4, bytes: 5, ranks: "first".into() }),
        }),
        ranks: vec![rank.clone(), rank],
        directory: "/runs/r/3".into(),
        ..v1::Prepare::default()
    }
}

fn fault(kind: Kind) -> v1::Fault {
    v1::Fault {
        id: 0,
        label: "a fault".into(),
        trigger: Some(v1::Trigger { when: Some(When::Iteration(4)) }),
        target: Some(v1::Target {
            ranks: vec![1],
            nodes: vec![0],
            directions: vec![v1::Direction { from: 0, to: 1 }],
        }),
        lasts_ns: Some(8),
        lease_ns: 9,
        kind: Some(kind),
    }
}

fn with(kind: Kind) -> v1::Prepare {
    v1::Prepare { faults: vec![fault(kind)], ..prepare() }
}

/// One message a kind, in the order of `FaultKind::NAMES`.
fn every_kind() -> Vec<Kind> {
    vec![
        Kind::Kill(v1::Kill { signal: "TERM".into() }),
        Kind::Stop(v1::Stop {}),
        Kind::TakePort(v1::TakePort { port: 80, role: String::new() }),
        Kind::MuteListener(v1::MuteListener { port: 81 }),
        Kind::ExhaustPorts(v1::ExhaustPorts { leave: 2 }),
        Kind::NarrowPorts(v1::NarrowPorts { to: 3 }),
        Kind::LimitShm(v1::LimitShm { to_bytes: 3 }),
        Kind::FillShm(v1::FillShm { leave_bytes: 4 }),
        Kind::ExhaustShmInodes(v1::ExhaustShmInodes { leave: 1 }),
        Kind::ReadOnlyShm(v1::ReadOnlyShm {}),
        Kind::StaleShm(v1::StaleShm { files: 2, each_bytes: 3 }),
        Kind::LimitMemory(v1::LimitMemory { leave_bytes: 5, rate_bytes: Some(6), swap: true }),
        Kind::PressPageCache(v1::PressPageCache { room_bytes: 7, rate_bytes: 8 }),
        Kind::HoldGpuMemory(v1::HoldGpuMemory { leave_bytes: 6 }),
        Kind::FragmentGpuMemory(v1::FragmentGpuMemory { leave_bytes: 7, piece_bytes: 8 }),
        Kind::ShiftClock(v1::ShiftClock { ahead_ns: 0, behind_ns: 9 }),
        Kind::FillStorage(v1::FillStorage { leave_bytes: 1 }),
        Kind::ReadOnlyStorage(v1::ReadOnlyStorage {}),
        Kind::SlowStorage(v1::SlowStorage { by_ns: 2 }),
        Kind::SlowLog(v1::SlowLog { rate_bytes: 3 }),
        Kind::Delay(v1::Delay { by_ns: 7, jitter_ns: 8 }),
        Kind::Loss(v1::Loss { percent: 1.5 }),
        Kind::Rate(v1::Rate { mbit: 100.0 }),
        Kind::Partition(v1::Partition {}),
    ]
}

#[test]
fn every_kind_of_fault_is_understood_with_its_parameters() {
    let understood: Vec<FaultKind> = every_kind()
        .into_iter()
        .map(|kind| assignment(with(kind)).unwrap().faults.remove(0).kind)
        .collect();
    let names: Vec<&str> = understood.iter().map(FaultKind::name).collect();
    assert_eq!(names, FaultKind::NAMES, "this table walks every kind");
    let parameters: Vec<String> =
        understood.iter().map(|kind| serde_json::to_string(kind).unwrap()).collect();
    assert_eq!(
        parameters,
        [
            r#"{"kill":{"signal":"TERM"}}"#,
            r#"{"stop":{}}"#,
            r#"{"take_port":{"port":80,"role":"rendezvous"}}"#,
            r#"{"mute_listener":{"port":81}}"#,
            r#"{"exhaust_ports":{"leave":2}}"#,
            r#"{"narrow_ports":{"to":3}}"#,
            r#"{"limit_shm":{"to":3}}"#,
            r#"{"fill_shm":{"leave":4}}"#,
            r#"{"exhaust_shm_inodes":{"leave":1}}"#,
            r#"{"read_only_shm":{}}"#,
            r#"{"stale_shm":{"files":2,"each":3}}"#,
            r#"{"limit_memory":{"leave":5,"rate":6,"swap":true}}"#,
            r#"{"press_page_cache":{"room":7,"rate":8}}"#,
            r#"{"hold_gpu_memory":{"leave":6}}"#,
            r#"{"fragment_gpu_memory":{"leave":7,"piece":8}}"#,
            r#"{"shift_clock":{"ahead":0,"behind":9}}"#,
            r#"{"fill_storage":{"leave":1}}"#,
            r#"{"read_only_storage":{}}"#,
            r#"{"slow_storage":{"by":2}}"#,
            r#"{"slow_log":{"rate":3}}"#,
            r#"{"delay":{"by":7,"jitter":8}}"#,
            r#"{"loss":{"percent":1.5}}"#,
            r#"{"rate":{"mbit":100.0}}"#,
            r#"{"partition":{}}"#,
        ]
    );
}

#[test]
fn a_case_is_understood_with_everything_in_it() {
    let case = assignment(prepare()).unwrap();
    assert_eq!(case.case, CaseId { run: "r".into(), index: 3, attempt: 2 });
    assert_eq!((case.world(), case.cluster.rendezvous_port, case.nccl), (2, Some(29_500), None));
    assert_eq!(case.workload.collectives, [Collective::AllReduce, Collective::SendRecv]);
    assert_eq!((case.workload.dtype, case.workload.interval), (Dtype::Bf16, Nanos(7)));
    let checkpoint = CheckpointPlan { every: 4, bytes: Bytes(5), ranks: CheckpointRanks::First };
    assert_eq!(case.workload.checkpoint, Some(checkpoint));
    assert_eq!(case.ranks[1].env["NCCL_DEBUG"], "WARN");
    let watchdog = &case.ranks[0].watchdog;
    assert_eq!((watchdog.init_timeout, watchdog.op_timeout), (None, Some(Nanos(5))));
    assert_eq!(watchdog.error_handling, ErrorHandling::Teardown);
}

#[test]
fn triggers_and_lifetimes_are_understood() {
    for (when, want) in [
        (When::AfterNs(4), Trigger::After(Nanos(4))),
        (When::Iteration(3), Trigger::Iteration(3)),
        (When::Phase("first-op".into()), Trigger::Phase(Phase::FirstOp)),
    ] {
        let mut message = with(Kind::Stop(v1::Stop {}));
        message.faults[0].trigger = Some(v1::Trigger { when: Some(when) });
        let fault = assignment(message).unwrap().faults.remove(0);
        assert_eq!((fault.when, fault.lasts, fault.lease), (want, Some(Nanos(8)), Nanos(9)));
    }
}

#[test]
fn what_is_not_understood_is_refused_with_what_to_do() {
    type Spoil = fn(&mut v1::Prepare);
    let table: &[(Spoil, &str)] = &[
        (|p| p.backend = "torch".into(), "one of: host, nccl"),
        (|p| p.case = None, "no case"),
        (|p| p.workload = None, "no workload"),
        (|p| p.nodes = 0, "at least one rank"),
        (|p| p.nodes = 3, "one entry a rank"),
        (|p| p.directory = "runs".into(), "an absolute path"),
        (|p| p.rendezvous_port = 70_000, "a port number"),
        (|p| p.ranks[1].watchdog = None, "no watchdog"),
        (|p| p.faults[0].kind = None, "a kind that this agent (version"),
        (|p| p.faults[0].trigger = Some(v1::Trigger { when: None }), "a trigger that this agent"),
        (|p| p.faults[0].id = 1, "its position"),
        (|p| p.faults[0].lease_ns = 0, "longer than nothing"),
        (|p| p.faults[0].target = Some(v1::Target::default()), "of this cluster"),
        (|p| p.faults[0].kind = Some(Kind::Loss(v1::Loss { percent: f64::NAN })), "100 percent"),
        (|p| p.faults[0].kind = Some(Kind::Rate(v1::Rate { mbit: 0.0 })), "above 0 Mbit/s"),
        (
            |p| p.faults[0].kind = Some(Kind::Kill(v1::Kill { signal: "HUP".into() })),
            "KILL or TERM",
        ),
    ];
    for (spoil, want) in table {
        let mut message = with(Kind::Stop(v1::Stop {}));
        assignment(message.clone()).unwrap();
        spoil(&mut message);
        let refusal = assignment(message).unwrap_err().to_string();
        assert!(refusal.contains(want), "{refusal:?} does not say {want:?}");
    }
    let mut message = with(Kind::Stop(v1::Stop {}));
    for rank in [2, 77] {
        message.faults[0].target = Some(v1::Target { ranks: vec![rank], ..Default::default() });
        assert!(assignment(message.clone()).is_err(), "there is no rank {rank}");
    }
}

#[test]
fn the_reason_to_finish_is_a_word_that_events_use() {
    assert_eq!(end_reason("ranks-gone"), Ok(EndReason::RanksGone));
    assert_eq!(end_reason("cap"), Ok(EndReason::Cap));
    assert!(end_reason("bored").unwrap_err().to_string().contains("one of ranks-gone"));
}
