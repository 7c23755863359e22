//! Whole runs under no clock: every test feeds inputs and reads actions.

use ringbreaker_scenarios::{
    event::{Detection, ExitStatus},
    fault::Stop,
    words::{Detector, Phase},
};

use super::*;
use crate::run::sample;

const SECOND: Nanos = Nanos::from_secs(1);

fn patience() -> Patience {
    Patience {
        prepare: Nanos::from_secs(60),
        finish: Nanos::from_secs(30),
        lease: Nanos::from_secs(10),
        attempts: 2,
    }
}

/// A run of `cases` cases with two ranks and a cap of 20 s, and the time that a test moves by hand.
struct Game {
    core: Core,
    now: Nanos,
}

impl Game {
    fn new(cases: u32) -> Game {
        Game::with(cases, |_| {})
    }

    fn with(cases: u32, change: impl Fn(&mut CasePlan)) -> Game {
        let plans: Vec<_> = (0..cases)
            .map(|index| {
                let mut plan = sample::plan(index);
                plan.cap = Nanos::from_secs(20);
                change(&mut plan);
                (plan, 1)
            })
            .collect();
        Game { core: Core::new(&plans, patience(), 1), now: SECOND }
    }

    fn feed(&mut self, input: Input) -> Vec<Action> {
        self.core.step(self.now, input)
    }

    fn after(&mut self, wait: Nanos) -> Vec<Action> {
        self.now = self.now + wait;
        self.feed(Input::Tick)
    }

    fn up(&mut self, agent: &str) -> Vec<Action> {
        self.feed(Input::AgentUp { agent: agent.into(), holds: vec![] })
    }

    fn answer(&mut self, agent: &str, command: CommandId) -> Vec<Action> {
        self.feed(Input::Answered { agent: agent.into(), command, answer: Ok(()) })
    }

    fn refuse(&mut self, agent: &str, command: CommandId) -> Vec<Action> {
        let answer = Err("no TUN device".to_owned());
        self.feed(Input::Answered { agent: agent.into(), command, answer })
    }

    fn observe(&mut self, agent: &str, case: CaseRef, rank: Rank, what: What) -> Vec<Action> {
        let event = Event { at: self.now, rank: Some(rank), what };
        self.feed(Input::Observed { agent: agent.into(), case, event })
    }

    fn exit(&mut self, agent: &str, case: CaseRef, rank: Rank) -> Vec<Action> {
        let what = What::RankExited { status: ExitStatus::Code(0), by_harness: false };
        self.observe(agent, case, rank, what)
    }
}

fn case(index: u32, attempt: u32) -> CaseRef {
    CaseRef { index, attempt }
}

/// Rank 1 is stopped by the case's only fault, for as long as given.
fn stopped(lasts: Option<Nanos>) -> Game {
    Game::with(1, |plan| {
        plan.faults[0].kind = FaultKind::Stop(Stop {});
        plan.faults[0].lasts = lasts;
    })
}

fn witnessed() -> What {
    What::FaultWitnessed { fault: 0, evidence: "state T".to_owned() }
}

#[test]
fn a_case_none_of_whose_faults_can_be_felt_is_not_waited_for() {
    let unexposed = |fault| What::FaultUnexposed { fault, reason: "data goes by P2P".to_owned() };
    let mut game = Game::with(1, |plan| {
        let mut second = plan.faults[0].clone();
        second.id = 1;
        plan.faults.push(second);
    });
    game.up("a");
    game.answer("a", 1);
    assert_eq!(game.observe("a", case(0, 1), 1, unexposed(0)), [], "the other fault may be felt");
    let actions = game.observe("a", case(0, 1), 1, unexposed(1));
    assert_eq!(sends(&actions), [(3, Order::Finish(case(0, 1), EndReason::Unexposed))]);
}

#[test]
fn a_rank_that_is_stopped_for_good_is_not_waited_for() {
    let mut game = stopped(None);
    game.up("a");
    game.answer("a", 1);
    game.observe("a", case(0, 1), 1, witnessed());
    let actions = game.exit("a", case(0, 1), 0);
    let finish = Order::Finish(case(0, 1), EndReason::RanksGone);
    assert!(actions.iter().any(|a| matches!(a, Action::Send { order, .. } if *order == finish)));
}

#[test]
fn a_rank_that_will_go_on_or_was_never_seen_stopped_is_waited_for() {
    for (lasts, seen) in [(Some(SECOND), true), (None, false)] {
        let mut game = stopped(lasts);
        game.up("a");
        game.answer("a", 1);
        if seen {
            game.observe("a", case(0, 1), 1, witnessed());
        }
        assert_eq!(game.exit("a", case(0, 1), 0), [], "lasts {lasts:?}, seen {seen}");
    }
}

fn sends(actions: &[Action]) -> Vec<(CommandId, Order)> {
    let pick = |a: &Action| match a {
        Action::Send { command, order, .. } => Some((*command, order.clone())),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn records(actions: &[Action]) -> Vec<(CaseRef, Fate, Option<EndReason>)> {
    let ended = |events: &[Event]| {
        events.iter().find_map(|e| match e.what {
            What::Ended { because } => Some(because),
            _ => None,
        })
    };
    let pick = |a: &Action| match a {
        Action::Record { case, events, fate, .. } => Some((*case, fate.clone(), ended(events))),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn detection() -> What {
    What::Detected(Detection {
        detector: Detector::RankWatchdog,
        phase: Phase::Steady,
        code: None,
        message: "deadline passed".to_owned(),
        op: Some(7),
        blames: None,
    })
}

#[test]
fn a_case_is_prepared_begun_finished_and_recorded_then_the_next_one_begins() {
    let mut game = Game::new(2);
    let (first, second) = (case(0, 1), case(1, 1));
    assert_eq!(sends(&game.up("a")), [(1, Order::Prepare(first))]);
    assert_eq!(sends(&game.answer("a", 1)), [(2, Order::Begin(first))]);
    assert_eq!(game.answer("a", 2), []);
    assert_eq!(game.exit("a", first, 0), []);
    let gone = game.exit("a", first, 1);
    assert_eq!(sends(&gone), [(3, Order::Finish(first, EndReason::RanksGone))]);
    let done = game.answer("a", 3);
    assert_eq!(records(&done), [(first, Fate::Done, Some(EndReason::RanksGone))]);
    assert_eq!(sends(&done), [(4, Order::Prepare(second))]);
}

#[test]
fn the_run_is_over_when_the_last_case_is_recorded_and_says_so_once() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.exit("a", case(0, 1), 0);
    game.exit("a", case(0, 1), 1);
    let done = game.answer("a", 3);
    assert_eq!(done.last(), Some(&Action::Over));
    assert_eq!(game.after(SECOND), []);
}

#[test]
fn lanes_run_side_by_side_and_an_idle_one_waits_for_nothing() {
    let mut game = Game::new(2);
    assert_eq!(sends(&game.up("a")), [(1, Order::Prepare(case(0, 1)))]);
    assert_eq!(sends(&game.up("b")), [(2, Order::Prepare(case(1, 1)))]);
    assert_eq!(game.up("c"), []);
    assert_eq!(game.core.next_deadline(), Some(SECOND + patience().prepare));
}

#[test]
fn a_case_is_ended_at_its_cap_counted_from_begin() {
    let mut game = Game::new(1);
    game.up("a");
    game.after(Nanos::from_secs(30));
    game.answer("a", 1);
    assert_eq!(game.after(Nanos::from_secs(19)), []);
    let capped = game.after(SECOND);
    assert_eq!(sends(&capped), [(3, Order::Finish(case(0, 1), EndReason::Cap))]);
    assert_eq!(game.after(SECOND), [], "it is finished once");
}

#[test]
fn a_refused_case_is_recorded_as_unavailable_with_the_reason() {
    let mut game = Game::new(1);
    game.up("a");
    let refused = game.refuse("a", 1);
    assert_eq!(sends(&refused), [(2, Order::Finish(case(0, 1), EndReason::Unavailable))]);
    // The agent holds nothing that it could finish.
    let over = game.refuse("a", 2);
    assert_eq!(records(&over), [(case(0, 1), Fate::Done, Some(EndReason::Unavailable))]);
    let Action::Record { events, .. } = &over[0] else { panic!("{over:?}") };
    assert_eq!(events[0].what, What::Unavailable { reason: "no TUN device".to_owned() });
}

#[test]
fn ranks_that_are_never_ready_make_the_case_unavailable() {
    let mut game = Game::new(1);
    game.up("a");
    let late = game.after(patience().prepare);
    assert_eq!(sends(&late), [(2, Order::Finish(case(0, 1), EndReason::Unavailable))]);
    assert_eq!(game.answer("a", 1), [], "a late Done does not begin it");
}

#[test]
fn the_first_detection_aborts_all_ranks_only_in_coordinated_mode() {
    for coordinated in [false, true] {
        let mut game = Game::with(1, |plan| plan.coordinated_abort = coordinated);
        game.up("a");
        game.answer("a", 1);
        let told = sends(&game.observe("a", case(0, 1), 0, detection()));
        let want = if coordinated { vec![(3, Order::AbortRanks(case(0, 1)))] } else { vec![] };
        assert_eq!(told, want);
        assert_eq!(game.observe("a", case(0, 1), 1, detection()), []);
    }
}

#[test]
fn a_dead_agent_is_replaced_and_its_case_tried_once_more_then_recorded_as_lost() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    let dead = |agent: &str| Input::AgentDead { agent: agent.into(), reason: "SIGKILL".into() };
    let first = game.feed(dead("a"));
    let reason = "SIGKILL".to_owned();
    let retried = Fate::Retried { reason: reason.clone() };
    assert_eq!(records(&first), [(case(0, 1), retried, Some(EndReason::AgentLost))]);
    assert_eq!(first[1], Action::Replace { agent: "a".into(), reason: reason.clone() });
    assert_eq!(sends(&game.up("b")), [(3, Order::Prepare(case(0, 2)))]);
    let second = game.feed(dead("b"));
    let lost = Fate::Lost { reason };
    assert_eq!(records(&second), [(case(0, 2), lost, Some(EndReason::AgentLost))]);
    assert_eq!(second.last(), Some(&Action::Over));
}

#[test]
fn a_short_loss_of_the_stream_costs_nothing_and_unanswered_commands_are_sent_again() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.feed(Input::StreamGone { agent: "a".into() });
    assert_eq!(game.after(Nanos::from_secs(9)), []);
    let back = game.feed(Input::AgentUp { agent: "a".into(), holds: vec![case(0, 1)] });
    assert_eq!(sends(&back), [(2, Order::Begin(case(0, 1)))]);
    assert_eq!(game.after(Nanos::from_secs(5)), [], "the old lease no longer counts");
}

#[test]
fn what_is_decided_without_a_stream_is_sent_when_the_agent_is_back() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.answer("a", 2);
    game.after(Nanos::from_secs(15));
    game.feed(Input::StreamGone { agent: "a".into() });
    assert_eq!(game.after(Nanos::from_secs(5)), [], "the cap passes while nobody listens");
    let back = game.feed(Input::AgentUp { agent: "a".into(), holds: vec![case(0, 1)] });
    assert_eq!(sends(&back), [(3, Order::Finish(case(0, 1), EndReason::Cap))]);
}

#[test]
fn a_stream_that_stays_away_for_the_lease_loses_the_agent() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.feed(Input::StreamGone { agent: "a".into() });
    let lost = game.after(patience().lease);
    assert!(matches!(records(&lost)[..], [(_, Fate::Retried { .. }, _)]), "{lost:?}");
    assert!(lost.iter().any(|a| matches!(a, Action::Replace { .. })), "{lost:?}");
}

#[test]
fn a_case_that_an_agent_ends_by_itself_is_tried_again_elsewhere() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.up("b");
    let ended = What::RankExited { status: ExitStatus::Signal(9), by_harness: true };
    let left = game.observe("a", case(0, 1), 0, ended.clone());
    assert!(matches!(records(&left)[..], [(_, Fate::Retried { .. }, _)]), "{left:?}");
    assert_eq!(sends(&left), [(3, Order::Prepare(case(0, 2)))]);
    assert_eq!(game.observe("a", case(0, 1), 1, ended), [], "nothing more is heard of it");
}

#[test]
fn an_agent_that_forgot_its_case_gets_the_next_attempt() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    let back = game.up("a");
    assert!(matches!(records(&back)[..], [(_, Fate::Retried { .. }, _)]), "{back:?}");
    assert_eq!(sends(&back), [(3, Order::Prepare(case(0, 2)))]);
}

#[test]
fn an_agent_that_does_not_heal_in_time_is_replaced() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.after(Nanos::from_secs(20));
    let stuck = game.after(patience().finish);
    assert!(stuck.iter().any(|a| matches!(a, Action::Replace { .. })), "{stuck:?}");
}

#[test]
fn an_interruption_heals_what_is_in_flight_and_hands_out_nothing_more() {
    let mut game = Game::new(3);
    game.up("a");
    game.answer("a", 1);
    game.up("b");
    let stop = game.feed(Input::Interrupted);
    let why = EndReason::Interrupted;
    assert_eq!(
        sends(&stop),
        [(4, Order::Finish(case(0, 1), why)), (5, Order::Finish(case(1, 1), why))]
    );
    assert_eq!(game.feed(Input::Interrupted), [], "a second one does not skip healing");
    let first = game.answer("a", 4);
    assert_eq!(records(&first), [(case(0, 1), Fate::Interrupted, Some(why))]);
    assert_eq!(sends(&first), []);
    assert_eq!(game.answer("b", 5).last(), Some(&Action::Over));
}

#[test]
fn an_interruption_before_any_agent_is_there_ends_the_run_at_once() {
    let mut game = Game::new(3);
    assert_eq!(game.feed(Input::Interrupted), [Action::Over]);
}

#[test]
fn late_words_about_a_given_up_attempt_change_nothing() {
    let mut game = Game::new(1);
    game.up("a");
    game.answer("a", 1);
    game.up("a");
    game.answer("a", 3);
    assert_eq!(game.exit("a", case(0, 1), 0), []);
    assert_eq!(game.exit("a", case(0, 1), 1), [], "both ranks of attempt 1, none of attempt 2");
}

#[test]
fn a_repeated_answer_is_taken_once() {
    let mut game = Game::new(1);
    game.up("a");
    assert_eq!(sends(&game.answer("a", 1)).len(), 1);
    assert_eq!(game.answer("a", 1), []);
}

#[test]
fn a_resumed_case_counts_its_attempts_on() {
    let plans = [(sample::plan(4), 3)];
    let mut core = Core::new(&plans, patience(), 1);
    let up = core.step(SECOND, Input::AgentUp { agent: "a".into(), holds: vec![] });
    assert_eq!(sends(&up), [(1, Order::Prepare(case(4, 3)))]);
    let dead = Input::AgentDead { agent: "a".into(), reason: "gone".into() };
    assert!(matches!(records(&core.step(SECOND, dead))[..], [(_, Fate::Retried { .. }, _)]));
}
