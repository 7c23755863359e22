//! What holds for any history whatever.

use proptest::prelude::*;
use ringbreaker_reports::{
    history::CaseHistory,
    outcome::judge,
    verdict::{merge, merge_all, verdict},
};
use ringbreaker_scenarios::{
    event::{
        Detection, EndReason, Event, ExitStatus, HealReason, OpRecord, OpSummary, Owner, What,
    },
    units::{Bytes, Nanos},
    words::{Collective, Detector, ErrorHandling, Outcome, Phase, Verdict},
};

use crate::story::Story;

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

fn status() -> impl Strategy<Value = ExitStatus> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 2, 3, 101]).prop_map(ExitStatus::Code),
        prop::sample::select(vec![6, 9, 11, 15]).prop_map(ExitStatus::Signal),
    ]
}

fn ops() -> impl Strategy<Value = OpSummary> {
    let record =
        (0..50u64, 0..100u64, prop::option::of(0..100u64)).prop_map(|(op, at, took)| OpRecord {
            op,
            collective: Collective::AllReduce,
            bytes: Bytes(1024),
            enqueued: Nanos::from_millis(at),
            ended: took.map(|took| Nanos::from_millis(at + took)),
            right: None,
            warmup: false,
        });
    (prop::collection::vec(record, 0..12), 0..2u64).prop_map(|(last, checked_wrong)| OpSummary {
        checked_wrong,
        last,
        ..OpSummary::default()
    })
}

fn fault_event() -> impl Strategy<Value = What> {
    (0..4u32, 0..7u8).prop_map(|(fault, kind)| match kind {
        0 => What::FaultTriggered { fault },
        1 => What::FaultInjected { fault },
        2 => What::FaultWitnessed { fault, evidence: "seen".into() },
        3 => What::FaultUnwitnessed { fault, reason: "not seen".into() },
        4 => What::FaultFailed { fault, reason: "refused".into() },
        5 => What::FaultHealed { fault, because: HealReason::LifeOver },
        _ => What::HealFailed { fault, reason: "stuck".into() },
    })
}

fn what() -> impl Strategy<Value = What> {
    let end = [
        EndReason::RanksGone,
        EndReason::Cap,
        EndReason::Interrupted,
        EndReason::AgentLost,
        EndReason::Unavailable,
    ];
    let owner = prop_oneof![Just(Owner::Job), Just(Owner::Harness)];
    prop_oneof![
        3 => fault_event(),
        3 => (status(), any::<bool>())
            .prop_map(|(status, by_harness)| What::RankExited { status, by_harness }),
        2 => (one_of(Detector::ALL), one_of(Phase::ALL), prop::option::of(0..9i32), prop::option::of(0..5u32))
            .prop_map(|(detector, phase, code, blames)| What::Detected(Detection {
                detector, phase, code, message: String::new(), op: None, blames,
            })),
        1 => one_of(Phase::ALL).prop_map(|phase| What::PhaseEntered { phase }),
        1 => Just(What::Began),
        1 => Just(What::Steady),
        1 => Just(What::AbortBegan),
        1 => (0..9i32).prop_map(|code| What::AbortEnded { code }),
        1 => ops().prop_map(What::Ops),
        1 => (owner, "[a-z]{1,5}").prop_map(|(of, what)| What::LeftOver { of, what }),
        1 => Just(What::Unavailable { reason: "lacking".into() }),
        1 => prop::sample::select(end.to_vec()).prop_map(|because| What::Ended { because }),
        1 => Just(What::WrongData { op: 1, expected: "1".into(), found: "2".into(), element: 0 }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0..60u64, prop::option::of(0..5u32), what()).prop_map(|(at, rank, what)| Event {
        at: Nanos::from_millis(at),
        rank,
        what,
    });
    prop::collection::vec(event, 0..40)
}

/// Any case: no fault or several, any mode, any events in any order.
fn histories() -> impl Strategy<Value = CaseHistory> {
    let faults = prop::collection::vec((0..4u8, 0..4u32), 0..3);
    let expected = prop::collection::vec(one_of(Outcome::ALL), 0..3);
    (faults, one_of(ErrorHandling::ALL), expected, events()).prop_map(
        |(faults, mode, expected, events)| {
            let story = faults.into_iter().fold(
                Story::of("any").mode(mode).expect(&expected),
                |story, (kind, rank)| match kind {
                    0 => story.kill(rank),
                    1 => story.stop(rank),
                    2 => story.limit_memory(rank),
                    _ => story.delay(rank, (rank + 1) % 4),
                },
            );
            let mut history = story.torn();
            history.events = events;
            history
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_judged_with_a_reason(history in histories()) {
        let report = judge(&history);
        prop_assert!(!report.why.is_empty());
        let verdict = verdict(&report, &history.plan);
        prop_assert!(!verdict.reasons.is_empty());
    }

    #[test]
    fn a_fault_without_witness_never_passes(history in histories()) {
        let report = judge(&history);
        if report.faults.iter().any(|fault| fault.effect.is_none()) {
            prop_assert_ne!(verdict(&report, &history.plan).verdict, Verdict::Pass);
        }
    }

    #[test]
    fn traces_of_the_harness_always_fail(history in histories()) {
        let report = judge(&history);
        let traces = !report.job.leftovers_of_harness.is_empty()
            || report.faults.iter().any(|fault| fault.heal_failed.is_some());
        if traces {
            prop_assert_eq!(verdict(&report, &history.plan).verdict, Verdict::Fail);
        }
    }

    #[test]
    fn a_log_line_never_changes_a_judgement(
        history in histories(), at in 0..60u64, rank in prop::option::of(0..5u32), place in any::<prop::sample::Index>(),
    ) {
        let mut logged = history.clone();
        let line = What::Log { line: "NCCL WARN something".into() };
        let event = Event { at: Nanos::from_millis(at), rank, what: line };
        logged.events.insert(place.index(logged.events.len() + 1), event);
        prop_assert_eq!(judge(&history), judge(&logged));
    }

    #[test]
    fn simultaneous_events_of_different_ranks_have_no_order(
        history in histories(), swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        // Any order that keeps each rank's own events in sequence, at one moment for all.
        let mut same_time = history;
        for event in &mut same_time.events {
            event.at = Nanos::from_millis(7);
        }
        let mut swapped = same_time.clone();
        for swap in swaps {
            let count = swapped.events.len();
            if count < 2 { break }
            let at = swap.index(count - 1);
            if swapped.events[at].rank != swapped.events[at + 1].rank {
                swapped.events.swap(at, at + 1);
            }
        }
        prop_assert_eq!(judge(&same_time), judge(&swapped));
    }

    #[test]
    fn merging_verdicts_is_a_lattice(
        a in one_of(Verdict::ALL), b in one_of(Verdict::ALL), c in one_of(Verdict::ALL),
    ) {
        prop_assert_eq!(merge(a, b), merge(b, a));
        prop_assert_eq!(merge(a, merge(b, c)), merge(merge(a, b), c));
        prop_assert_eq!(merge(a, a), a);
        prop_assert_eq!(merge(a, Verdict::Pass), a);
        prop_assert_eq!(merge(a, Verdict::Fail), Verdict::Fail);
        prop_assert_eq!(merge_all([a, b, c]), merge(a, merge(b, c)));
    }
}

#[test]
fn no_verdict_at_all_is_unknown() {
    assert_eq!(merge_all([]), Verdict::Unknown);
}
