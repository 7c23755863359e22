//! Signals to ranks.

use std::time::Duration;

use ringbreaker_agent::inject::InjectError;
use ringbreaker_scenarios::{
    event::ExitStatus,
    fault::{FaultKind, Kill, Signal, Stop},
};

use super::rig::{PATIENCE, Rig, can_isolate, rank, within};

#[test]
fn kill_ends_its_rank_with_its_signal_and_no_other_rank() {
    for (signal, number) in [(Signal::Kill, 9), (Signal::Term, 15)] {
        let rig = Rig::small();
        let (mut injector, evidence) = rig.bitten(FaultKind::Kill(Kill { signal }), rank(1));
        assert!(evidence.contains("rank 1"), "{evidence}");
        assert_eq!(rig.ranks[1].wait().unwrap(), ExitStatus::Signal(number));
        assert!(rig.beats_within(0, PATIENCE));
        injector.heal().unwrap();
    }
}

#[test]
fn kill_of_a_rank_that_has_ended_by_itself_is_refused_not_reported_as_done() {
    let rig = Rig::small();
    let kill = || FaultKind::Kill(Kill { signal: Signal::Kill });
    let (first, _) = rig.bitten(kill(), rank(1));
    rig.ranks[1].wait().unwrap();
    let error = rig.injector(kill(), rank(1)).unwrap().inject().unwrap_err();
    assert!(error.to_string().contains("had ended by itself"), "{error}");
    drop(first);
}

#[test]
fn stop_halts_every_beat_of_its_rank_until_it_is_healed() {
    let rig = Rig::small();
    let (mut injector, evidence) = rig.bitten(FaultKind::Stop(Stop {}), rank(0));
    assert!(evidence.contains("state T"), "{evidence}");
    assert!(!rig.beats_within(0, Duration::from_millis(300)), "a stopped rank beats");
    assert!(rig.beats_within(1, PATIENCE));
    injector.heal().unwrap();
    assert!(rig.beats_within(0, PATIENCE), "a continued rank does not beat");
    injector.heal().unwrap();
    assert!(within(PATIENCE, || injector.witness().is_none().then_some(())).is_some());
}

#[test]
fn a_fault_on_a_rank_or_link_that_the_case_does_not_have_is_refused() {
    let rig = Rig::small();
    let refused = |target| {
        matches!(rig.injector(FaultKind::Stop(Stop {}), target), Err(InjectError::NoTarget { .. }))
    };
    assert!(refused(rank(7)));
    assert!(refused(super::rig::node(0)), "a target without ranks");
    if can_isolate("a fault on a link that does not exist is refused") {
        let partition = FaultKind::Partition(ringbreaker_scenarios::fault::Partition {});
        let error = rig.injector(partition, super::rig::link(0, 5)).err().unwrap();
        assert!(matches!(error, InjectError::NoTarget { .. }), "{error}");
    }
}
