//! Faults while ranks find each other, and the shared memory that they take.

use std::{net::TcpListener, time::Duration};

use ringbreaker_agent::{
    rank::{
        code,
        protocol::{EXIT_AFTER_ERROR, ToRank},
    },
    sys::signal::Signal,
};
use ringbreaker_scenarios::{
    event::ExitStatus,
    units::{Bytes, Nanos},
    words::{Detector, Phase},
};

use super::job::{Job, Plan};

const SHORT: Duration = Duration::from_millis(900);

fn impatient(world: u32) -> Plan {
    let mut plan = Plan::endless(world);
    plan.watchdog.init_timeout = Some(SHORT.into());
    plan
}

fn times_out_in_creation(job: &mut Job, rank: usize) {
    let detection = job.ranks[rank].detects();
    assert_eq!(detection.detector, Detector::RankWatchdog, "{detection:?}");
    assert_eq!((detection.phase, detection.op), (Phase::Init, None));
    assert_eq!(job.ranks[rank].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn a_missing_rank_is_found_by_the_deadline_of_creation_alone() {
    let mut job = impatient(3).start();
    job.init_only(&[0, 1]);
    times_out_in_creation(&mut job, 0);
    times_out_in_creation(&mut job, 1);
}

#[test]
fn an_id_that_never_comes_is_given_up_at_the_deadline_of_creation() {
    let mut job = impatient(2).start();
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    job.ranks[1].tell(&ToRank::AwaitId);
    let detection = job.ranks[1].detects();
    assert_eq!(detection.detector, Detector::RankWatchdog, "{detection:?}");
    assert_eq!((detection.phase, detection.op), (Phase::BeforeInit, None));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn a_rank_killed_during_creation_is_not_noticed_before_the_deadline() {
    let mut job = impatient(3).start();
    job.init_only(&[0, 1]);
    job.ranks[1].enters(Phase::Init);
    job.ranks[1].process.signal(Signal::SIGKILL).unwrap();
    assert_eq!(job.ranks[1].ends(), ExitStatus::Signal(9));
    // All have called the root now, one of them from the grave.
    times_out_in_creation(&mut job, 0);
}

#[test]
fn a_root_that_is_gone_is_given_up_after_the_retries() {
    let mut plan = Plan::endless(2);
    plan.env.insert("NCCL_SOCKET_RETRY_CNT".into(), "3".into());
    plan.env.insert("NCCL_SOCKET_RETRY_SLEEP_MSEC".into(), "10".into());
    let mut job = plan.start();
    let id = job.make_id();
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    assert_eq!(job.ranks[0].ends(), ExitStatus::Signal(9));
    job.ranks[1].tell(&ToRank::Init { id });
    let detection = job.ranks[1].detects();
    assert_eq!((detection.detector, detection.code), (Detector::CallError, Some(6)));
    assert!(detection.message.contains("exceeded error retry count after 4 attempts"));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn a_taken_rendezvous_port_fails_rank_0_and_the_other_waits_for_its_deadline() {
    // Without SO_REUSEPORT, as any other program would hold it.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = impatient(2);
    plan.env.insert("NCCL_COMM_ID".into(), taken.local_addr().unwrap().to_string());
    let mut job = plan.start();
    job.init();
    let detection = job.ranks[0].detects();
    assert_eq!(detection.detector, Detector::CallError);
    assert_eq!((detection.code, detection.phase), (Some(code::SYSTEM_ERROR), Phase::Init));
    assert_eq!(detection.message, "Call to bind failed: Address already in use");
    assert_eq!(job.ranks[0].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    times_out_in_creation(&mut job, 1);
}

#[test]
fn a_free_rendezvous_port_works() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut plan = Plan::endless(2);
    plan.workload.iterations = 3;
    plan.env.insert("NCCL_COMM_ID".into(), port.to_string());
    let mut job = Job::steady(plan);
    for rank in &mut job.ranks {
        assert_eq!(rank.ends(), ExitStatus::Code(0));
    }
}

fn brief_on_a_node_with(shm: Bytes) -> Option<Plan> {
    let mut plan = Plan::on_a_node_with(shm)?;
    plan.workload.iterations = 3;
    plan.watchdog.op_timeout = Some(Nanos::from(SHORT));
    Some(plan)
}

#[test]
fn full_shared_memory_fails_the_first_operation_by_default() {
    let Some(plan) = brief_on_a_node_with(Bytes(1 << 20)) else { return };
    let mut job = plan.start();
    job.init();
    let detection = job.ranks[0].detects();
    assert_eq!((detection.detector, detection.code), (Detector::CallError, Some(2)));
    assert_eq!(detection.phase, Phase::FirstOp);
    assert!(
        detection.message.starts_with("Error while creating shared memory segment /dev/shm/nccl-")
            && detection.message.ends_with("error: No space left on device (28)"),
        "{detection:?}"
    );
    assert_eq!(job.ranks[0].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn full_shared_memory_fails_creation_when_nccl_takes_it_there() {
    let Some(mut plan) = brief_on_a_node_with(Bytes(1 << 20)) else { return };
    plan.env.insert("NCCL_CUMEM_ENABLE".into(), "0".into());
    plan.env.insert("NCCL_CUMEM_HOST_ENABLE".into(), "0".into());
    let mut job = plan.start();
    job.init();
    let detection = job.ranks[0].detects();
    assert_eq!((detection.detector, detection.code), (Detector::CallError, Some(2)));
    assert_eq!(detection.phase, Phase::Init);
}

#[test]
fn shared_memory_for_one_segment_a_rank_is_enough() {
    let Some(plan) = brief_on_a_node_with(Bytes(70 << 20)) else { return };
    let mut job = Job::steady(plan);
    for rank in &mut job.ranks {
        assert_eq!(rank.ends(), ExitStatus::Code(0));
    }
}
