//! The guard of a whole agent: killed, it is replaced, and its successor heals.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use ringbreaker_agent::sys::census;
use ringbreaker_proto::v1::{self, fault::Kind};
use ringbreaker_scenarios::event::What;

use super::{assert_nothing_is_left, begin, controller::Rig, count, done, of_rank_1, prepare};
use crate::inject::rig::PATIENCE;

/// The guard beside an agent, once it is another than `not`.
async fn guard(agent: u32, not: Option<u32>) -> u32 {
    let found = || {
        let everybody = census::everybody().unwrap().into_iter();
        let mut children = everybody.filter(|one| one.parent == agent);
        let guard = children.find(|one| one.arguments.get(1).is_some_and(|word| word == "guard"));
        guard.map(|guard| guard.pid).filter(|pid| Some(*pid) != not)
    };
    let begin = std::time::Instant::now();
    loop {
        match found() {
            Some(pid) => return pid,
            None => assert!(begin.elapsed() < PATIENCE, "the agent has no guard"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn end(pid: u32) {
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_guard_is_replaced_by_one_that_heals_when_the_agent_dies_too() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let fault = of_rank_1(Kind::Stop(v1::Stop {}), Duration::from_secs(60));
    let prepare = prepare(&rig, vec![fault]);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    let first = guard(rig.agent.pid(), None).await;
    end(first);
    let second = guard(rig.agent.pid(), Some(first)).await;
    assert_ne!(first, second);
    end(rig.agent.pid());
    rig.agent.end().await;
    let begin = std::time::Instant::now();
    let left = || std::fs::read_dir(rig.state()).unwrap().next().is_some();
    while left() || rig.rank_pids().iter().any(|pid| super::controller::runs(*pid)) {
        assert!(begin.elapsed() < PATIENCE, "nobody heals");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_nothing_is_left(&rig);
}
