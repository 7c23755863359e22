//! Ranks whose peer is killed.

use std::time::Duration;

use ringbreaker_agent::{
    rank::{code, protocol::EXIT_AFTER_ERROR},
    sys::signal::Signal,
};
use ringbreaker_scenarios::{
    event::{ExitStatus, What},
    units::{Bytes, Nanos},
    words::{Detector, Phase},
};

use super::job::{Job, Plan};
use crate::ground;

#[test]
fn a_neighbour_of_a_killed_rank_gets_an_asynchronous_remote_error() {
    let mut job = Job::steady(Plan::endless(2));
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    let detection = job.ranks[1].detects();
    assert_eq!(detection.detector, Detector::AsyncError);
    assert_eq!(detection.code, Some(code::REMOTE_ERROR));
    assert_eq!(detection.phase, Phase::Steady);
    assert!(
        detection.message.contains("Connection closed by remote peer 127.0.0.1<"),
        "{detection:?}"
    );
    assert_eq!(detection.blames, None, "the message names a port and no rank");
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    assert_eq!(job.ranks[0].ends(), ExitStatus::Signal(9));
    // The black box of the killed rank is readable and agrees with what its neighbour had.
    let (dead, alive) = (job.ranks[0].black_box(), job.ranks[1].black_box());
    assert!(dead.finished >= 20 && dead.checked_wrong == 0, "{dead:?}");
    assert!(dead.finished.abs_diff(alive.finished) <= 1, "{} {}", dead.finished, alive.finished);
    assert_eq!(Some(alive.last.last().unwrap().op), detection.op);
    assert_eq!(alive.last.last().unwrap().ended, None);
}

#[test]
fn a_rank_that_is_no_neighbour_notices_only_when_a_neighbour_has_aborted() {
    let mut plan = Plan::endless(4);
    plan.workload.bytes = vec![Bytes(4 << 10)];
    let mut job = Job::steady(plan);
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    for rank in 1..4 {
        let detection = job.ranks[rank].detects();
        assert_eq!(detection.detector, Detector::AsyncError, "rank {rank}");
        assert_eq!(detection.code, Some(code::REMOTE_ERROR), "rank {rank}");
    }
    let at = |job: &mut Job, rank: usize, wanted: fn(&What) -> bool| {
        job.ranks[rank].until("a time", |said| match said {
            ringbreaker_agent::rank::protocol::FromRank::Observed(event) if wanted(&event.what) => {
                Some(event.at)
            }
            _ => None,
        })
    };
    let detected = |what: &What| matches!(what, What::Detected(_));
    let ended = |what: &What| matches!(what, What::AbortEnded { code: 0 });
    let far = at(&mut job, 2, detected);
    let first = at(&mut job, 1, ended).min(at(&mut job, 3, ended));
    // Sockets close at the end of an abort, shortly before it is reported.
    assert!(
        far + Nanos::from_millis(50) > first,
        "rank 2 noticed at {far}, abort ended at {first}"
    );
}

#[test]
fn an_idle_communicator_does_not_notice_a_death_until_the_next_operation() {
    let mut plan = Plan::endless(2);
    plan.workload.interval = Nanos::from_millis(1500);
    plan.announce = vec![0, 1];
    let mut job = Job::steady(plan);
    job.reach(0);
    // Well inside the pause after operation 0, which takes milliseconds.
    let over = || job.ranks.iter().all(|rank| rank.black_box().finished == 3);
    ground::eventually("operation 2 is over on both", over);
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    assert_eq!(job.ranks[0].ends(), ExitStatus::Signal(9));
    let detection = job.ranks[1].detects();
    assert_eq!(detection.detector, Detector::AsyncError);
    assert_eq!(detection.op, Some(3), "the operation after the pause");
    let observed = job.ranks[1].observed_within(Duration::ZERO);
    let place = |wanted: &dyn Fn(&What) -> bool| observed.iter().position(wanted).unwrap();
    let next = place(&|what| *what == What::IterationReached { iteration: 1 });
    assert!(next < place(&|what| matches!(what, What::Detected(_))), "{observed:#?}");
}

#[test]
fn a_death_inside_the_first_operation_is_found_by_the_deadline_alone() {
    // Killed there, it may leave its segment behind, as NCCL does.
    let Some(plan) = Plan::on_a_node_with(Bytes(80 << 20)) else { return };
    let mut plan = plan.op_timeout(Duration::from_millis(700));
    plan.workload.bytes = vec![Bytes(64)];
    let mut job = plan.start();
    job.init();
    job.ranks[0].enters(Phase::FirstOp);
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    let detection = job.ranks[1].detects();
    assert_eq!(detection.detector, Detector::RankWatchdog, "{detection:?}");
    assert_eq!(detection.phase, Phase::FirstOp);
    assert_eq!(detection.op, Some(0));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}
