//! Ranks whose peer is stopped.

use std::time::Duration;

use ringbreaker_agent::{
    rank::{code, protocol::EXIT_AFTER_ERROR},
    sys::signal::Signal,
};
use ringbreaker_scenarios::{
    event::ExitStatus,
    words::{Detector, Phase},
};

use super::job::{Job, Plan};

#[test]
fn a_stopped_rank_is_found_by_the_deadline_and_learns_of_it_when_it_continues() {
    let mut job = Job::steady(Plan::endless(2).op_timeout(Duration::from_secs(1)));
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGSTOP).unwrap();
    let detection = job.ranks[1].detects();
    assert_eq!(detection.detector, Detector::RankWatchdog);
    assert_eq!((detection.code, detection.phase), (None, Phase::Steady));
    assert!(detection.message.contains("timeout 1s"), "{detection:?}");
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    job.ranks[0].process.signal(Signal::SIGCONT).unwrap();
    let told = job.ranks[0].detects();
    // Its operation is older than the deadline too; NCCL's error is looked at first.
    assert_eq!((told.detector, told.code), (Detector::AsyncError, Some(code::REMOTE_ERROR)));
    assert_eq!(job.ranks[0].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn a_stop_shorter_than_the_deadline_has_no_effect_on_results() {
    let mut plan = Plan::endless(3);
    plan.workload.iterations = 200;
    let mut job = Job::steady(plan);
    job.reach(20);
    job.ranks[1].process.signal(Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    job.ranks[1].process.signal(Signal::SIGCONT).unwrap();
    for rank in &mut job.ranks {
        assert_eq!(rank.ends(), ExitStatus::Code(0));
        assert_eq!(rank.black_box().checked_right, 202);
    }
}
