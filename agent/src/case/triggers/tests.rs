//! Tables of single lives, and properties over all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringbreaker_scenarios::{
    case::Target,
    fault::{FaultKind, Partition, Stop},
};

use super::*;

const LEASE: Nanos = Nanos(1_000);

fn stop(id: u32, when: Trigger) -> FaultPlan {
    FaultPlan {
        id,
        label: format!("stop rank 1 ({id})"),
        kind: FaultKind::Stop(Stop {}),
        when,
        target: Target { ranks: vec![1], ..Target::default() },
        lasts: None,
        lease: LEASE,
    }
}

fn partition(id: u32, when: Trigger) -> FaultPlan {
    FaultPlan {
        kind: FaultKind::Partition(Partition {}),
        target: Target { directions: vec![(0, 1)], ..Target::default() },
        ..stop(id, when)
    }
}

/// Feeds inputs at times and gives what was answered, with the time.
fn play(triggers: &mut Triggers, script: &[(u64, Input)]) -> Vec<(u64, Action)> {
    script
        .iter()
        .flat_map(|(at, input)| {
            let actions = triggers.step(Nanos(*at), *input);
            actions.into_iter().map(|action| (*at, action))
        })
        .collect()
}

fn fired(plan: FaultPlan, script: &[(u64, Input)]) -> Vec<(u64, Action)> {
    play(&mut Triggers::new(&[plan], Nanos(0)), script)
}

#[test]
fn a_fault_that_cannot_be_felt_never_fires_and_one_in_force_is_not_let_go() {
    use Input::{Began, End, Injected, Iteration, Steady, Unexposed};
    let end = End(HealReason::CaseEnded);
    let script = [(1, Began), (2, Unexposed(0)), (3, Steady), (4, Iteration(1, 5)), (5, end)];
    assert_eq!(fired(partition(0, Trigger::Iteration(5)), &script), []);
    let script = [(1, Steady), (2, Iteration(1, 5)), (3, Injected(0)), (4, Unexposed(0)), (5, end)];
    let healed = Action::Heal(0, HealReason::CaseEnded);
    let want = [(2, Action::Inject(0)), (5, healed)];
    assert_eq!(fired(partition(0, Trigger::Iteration(5)), &script), want);
}

#[test]
fn each_trigger_fires_at_its_own_input_and_only_there() {
    use Input::{Began, Iteration, Phase as In, Steady, Tick};
    let life: &[(u64, Input)] = &[
        (1, In(0, Phase::BeforeInit)),
        (2, In(1, Phase::BeforeInit)),
        (3, Began),
        (4, In(0, Phase::Init)),
        (5, In(1, Phase::Init)),
        (6, In(0, Phase::FirstOp)),
        (7, In(1, Phase::FirstOp)),
        (8, In(1, Phase::Steady)),
        (9, Tick),
        (10, Steady),
        (11, Iteration(0, 3)),
        (12, Iteration(1, 3)),
        (30, Tick),
        (31, In(0, Phase::Abort)),
        (32, In(1, Phase::Abort)),
    ];
    let table = [
        (Trigger::Phase(Phase::BeforeInit), 3, 3),
        (Trigger::Phase(Phase::Init), 5, 4),
        (Trigger::Phase(Phase::FirstOp), 7, 6),
        // Met at 8, but the gate opens at 10.
        (Trigger::Phase(Phase::Steady), 10, 10),
        (Trigger::Iteration(3), 12, 11),
        (Trigger::After(Nanos(20)), 30, 30),
        (Trigger::Phase(Phase::Abort), 32, 31),
    ];
    for (when, on_rank_1, on_any) in table {
        assert_eq!(fired(stop(0, when), life), [(on_rank_1, Action::Inject(0))], "{when:?}");
        assert_eq!(fired(partition(0, when), life), [(on_any, Action::Inject(0))], "{when:?}");
    }
}

#[test]
fn without_the_steady_state_nothing_that_is_meant_for_later_fires() {
    let script = [
        (1, Input::Began),
        (2, Input::Phase(1, Phase::Steady)),
        (3, Input::Phase(1, Phase::Abort)),
        (4, Input::Iteration(1, 3)),
        (999, Input::Tick),
    ];
    for when in [
        Trigger::Phase(Phase::Steady),
        Trigger::Phase(Phase::Abort),
        Trigger::Iteration(3),
        Trigger::After(Nanos(5)),
    ] {
        assert_eq!(fired(stop(0, when), &script), [], "{when:?}");
    }
}

#[test]
fn a_planned_life_counts_from_the_effect() {
    let plan = FaultPlan { lasts: Some(Nanos(100)), ..stop(0, Trigger::Phase(Phase::BeforeInit)) };
    let mut triggers = Triggers::new(&[plan], Nanos(0));
    play(&mut triggers, &[(1, Input::Began), (2, Input::Injected(0))]);
    assert_eq!(triggers.next_deadline(), Some(Nanos(102)), "no effect is seen yet");
    play(&mut triggers, &[(50, Input::Witnessed(0))]);
    assert_eq!(triggers.next_deadline(), Some(Nanos(150)));
    let healed = play(&mut triggers, &[(149, Input::Tick), (150, Input::Tick), (151, Input::Tick)]);
    assert_eq!(healed, [(150, Action::Heal(0, HealReason::LifeOver))]);
}

#[test]
fn a_lease_that_is_not_renewed_ends_the_fault() {
    let mut triggers = Triggers::new(&[stop(0, Trigger::Phase(Phase::BeforeInit))], Nanos(0));
    play(&mut triggers, &[(1, Input::Began), (2, Input::Injected(0)), (500, Input::Renewed)]);
    assert_eq!(triggers.next_deadline(), Some(Nanos(1_500)));
    let healed = play(&mut triggers, &[(1_499, Input::Tick), (1_500, Input::Tick)]);
    assert_eq!(healed, [(1_500, Action::Heal(0, HealReason::LeaseExpired))]);
}

#[test]
fn a_fault_that_failed_is_neither_healed_nor_tried_again() {
    let script =
        [(1, Input::Began), (2, Input::Failed(0)), (3, Input::Began), (9_999, Input::Tick)];
    let actions = fired(stop(0, Trigger::Phase(Phase::BeforeInit)), &script);
    assert_eq!(actions, [(1, Action::Inject(0))]);
}

#[test]
fn the_end_heals_the_youngest_first_and_nothing_fires_afterwards() {
    let plans = [
        stop(0, Trigger::Phase(Phase::BeforeInit)),
        partition(1, Trigger::Phase(Phase::BeforeInit)),
        stop(2, Trigger::Phase(Phase::Init)),
    ];
    let mut triggers = Triggers::new(&plans, Nanos(0));
    let because = HealReason::CaseEnded;
    let script = [
        (1, Input::Began),
        (2, Input::Injected(0)),
        (2, Input::Injected(1)),
        (3, Input::End(because)),
        (4, Input::Phase(1, Phase::Init)),
        (5, Input::End(because)),
    ];
    let healed: Vec<Action> =
        play(&mut triggers, &script).into_iter().skip(2).map(|(_, action)| action).collect();
    assert_eq!(healed, [Action::Heal(1, because), Action::Heal(0, because)]);
    assert_eq!(triggers.next_deadline(), None);
}

fn trigger() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        (0..60_u64).prop_map(|at| Trigger::After(Nanos(at))),
        (0..3_u32).prop_map(Trigger::Iteration),
        prop::sample::select(Phase::ALL).prop_map(Trigger::Phase),
    ]
}

fn faults() -> impl Strategy<Value = Vec<FaultPlan>> {
    let fault = (trigger(), prop::option::of(1..50_u64), 20..200_u64, any::<bool>());
    prop::collection::vec(fault, 0..4).prop_map(|faults| {
        (0..)
            .zip(faults)
            .map(|(id, (when, lasts, lease, link))| FaultPlan {
                lasts: lasts.map(Nanos),
                lease: Nanos(lease),
                ..if link { partition(id, when) } else { stop(id, when) }
            })
            .collect()
    })
}

fn input() -> impl Strategy<Value = Input> {
    let reason = prop::sample::select(vec![
        HealReason::CaseEnded,
        HealReason::LeaseExpired,
        HealReason::Interrupted,
    ]);
    prop_oneof![
        2 => Just(Input::Began),
        2 => Just(Input::Steady),
        4 => (0..2_u32, prop::sample::select(Phase::ALL)).prop_map(|(r, p)| Input::Phase(r, p)),
        4 => (0..2_u32, 0..3_u32).prop_map(|(r, i)| Input::Iteration(r, i)),
        4 => (0..4_u32).prop_map(Input::Injected),
        1 => (0..4_u32).prop_map(Input::Failed),
        2 => (0..4_u32).prop_map(Input::Witnessed),
        2 => Just(Input::Renewed),
        4 => Just(Input::Tick),
        1 => reason.prop_map(Input::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_fault_fires_at_most_once_after_its_trigger_and_is_healed_exactly_once(
        plans in faults(),
        script in prop::collection::vec((0..20_u64, input()), 0..40),
    ) {
        let mut triggers = Triggers::new(&plans, Nanos(0));
        let mut injected: BTreeMap<FaultId, u64> = BTreeMap::new();
        let mut failed: BTreeMap<FaultId, u64> = BTreeMap::new();
        let mut healed: BTreeMap<FaultId, u64> = BTreeMap::new();
        let (mut now, mut steady, mut ended) = (0, None, false);
        let mut seen = Vec::new();
        let end = [(1, Input::End(HealReason::CaseEnded)), (1, Input::Tick)];
        for (pause, input) in script.into_iter().chain(end) {
            now += pause;
            seen.push(input);
            if input == Input::Steady {
                steady = steady.or(Some(now));
            }
            if let Input::Failed(id) = input
                && injected.contains_key(&id) && !healed.contains_key(&id)
            {
                failed.insert(id, now);
            }
            for action in triggers.step(Nanos(now), input) {
                match action {
                    Action::Inject(id) => {
                        prop_assert!(!ended, "fired after the end");
                        prop_assert!(injected.insert(id, now).is_none(), "fired twice");
                        let plan = &plans[id as usize];
                        let mine = |r: &Rank| plan.target.ranks.is_empty() || plan.target.ranks.contains(r);
                        let reached = match plan.when {
                            Trigger::After(wait) => steady.is_some_and(|s| now >= s + wait.0),
                            Trigger::Iteration(wanted) => seen.iter().any(
                                |i| matches!(i, Input::Iteration(r, it) if mine(r) && *it == wanted)),
                            Trigger::Phase(Phase::BeforeInit) => seen.contains(&Input::Began),
                            Trigger::Phase(wanted) => seen.iter().any(
                                |i| matches!(i, Input::Phase(r, p) if mine(r) && *p == wanted)),
                        };
                        prop_assert!(reached, "fired before its trigger");
                        prop_assert!(before_steady(plan.when) || steady.is_some());
                    }
                    Action::Heal(id, _) => {
                        prop_assert!(injected.contains_key(&id), "healed before it fired");
                        prop_assert!(!failed.contains_key(&id), "healed after it failed");
                        prop_assert!(healed.insert(id, now).is_none(), "healed twice");
                    }
                }
            }
            ended |= matches!(input, Input::End(_));
        }
        for id in injected.keys() {
            prop_assert!(healed.contains_key(id) || failed.contains_key(id), "never healed");
        }
    }
}
