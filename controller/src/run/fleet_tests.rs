//! The fleet with channels in place of streams.

use tokio::sync::mpsc;

use super::*;

type Stream = mpsc::Receiver<Result<v1::ToAgent, Status>>;

fn fleet() -> Fleet {
    Fleet::new("r1", Nanos::from_secs(10))
}

fn join(fleet: &mut Fleet, session: SessionId, id: &str, pid: u32) -> (Option<Joined>, Stream) {
    let (sender, stream) = mpsc::channel(4);
    let probe = Some(v1::NodeProbe { pid, ..Default::default() });
    let held = |run: &str| v1::CaseRef { run: run.into(), index: 3, attempt: 1 };
    let register = v1::Register {
        agent_id: id.into(),
        probe,
        cases: vec![held("r1"), held("another")],
        ..Default::default()
    };
    (fleet.join(session, register, sender), stream)
}

fn observation(sequence: u64) -> v1::Observation {
    let event = Event { at: Nanos(sequence), rank: None, what: What::Steady };
    v1::Observation {
        sequence,
        case: Some(v1::CaseRef { run: "r1".into(), index: 3, attempt: 1 }),
        event_json: serde_json::to_vec(&event).unwrap(),
    }
}

/// What was said to the agent, oldest first.
fn said(stream: &mut Stream) -> Vec<to_agent::Message> {
    std::iter::from_fn(|| stream.try_recv().ok()).map(|m| m.unwrap().message.unwrap()).collect()
}

fn acknowledged(stream: &mut Stream) -> Vec<u64> {
    let pick = |m| match m {
        to_agent::Message::Acknowledged(sequence) => Some(sequence),
        _ => None,
    };
    said(stream).into_iter().filter_map(pick).collect()
}

#[test]
fn an_agent_is_welcomed_with_its_lease_and_what_it_holds_is_sorted() {
    let mut fleet = fleet();
    let (joined, mut stream) = join(&mut fleet, 1, "a", 100);
    let joined = joined.unwrap();
    assert_eq!(joined.holds, [CaseRef { index: 3, attempt: 1 }]);
    assert_eq!(joined.foreign.len(), 1);
    let to_agent::Message::Welcome(welcome) = said(&mut stream).remove(0) else { panic!() };
    assert_eq!((welcome.lease_ms, welcome.heartbeat_ms, welcome.acknowledged), (10_000, 1_000, 0));
}

#[test]
fn observations_count_once_and_are_acknowledged_when_the_caller_says_so() {
    let mut fleet = fleet();
    let (_, mut stream) = join(&mut fleet, 1, "a", 100);
    said(&mut stream);
    let a = "a".to_owned();
    assert_eq!(fleet.take(1, &a, &observation(1)).unwrap().1.at, Nanos(1));
    assert_eq!(acknowledged(&mut stream), [] as [u64; 0]);
    fleet.acknowledge(&a);
    assert_eq!(acknowledged(&mut stream), [1]);
    assert!(fleet.take(1, &a, &observation(2)).is_some());
    assert!(fleet.take(1, &a, &observation(1)).is_none(), "a repetition");
    assert_eq!(acknowledged(&mut stream), [2], "a repetition is acknowledged again");
}

#[test]
fn a_gap_ends_the_stream_so_that_the_agent_sends_again_from_the_last_stored_one() {
    let mut fleet = fleet();
    let (_, first) = join(&mut fleet, 1, "a", 100);
    let a = "a".to_owned();
    fleet.take(1, &a, &observation(1));
    assert!(fleet.take(1, &a, &observation(3)).is_none());
    assert!(first.is_closed() || fleet.present().next().is_none());
    let (_, mut second) = join(&mut fleet, 2, "a", 100);
    let to_agent::Message::Welcome(welcome) = said(&mut second).remove(0) else { panic!() };
    assert_eq!(welcome.acknowledged, 1);
    assert!(fleet.take(2, &a, &observation(2)).is_some());
}

#[test]
fn the_later_stream_of_an_agent_counts_and_the_end_of_the_earlier_one_means_nothing() {
    let mut fleet = fleet();
    let a = "a".to_owned();
    let (_, _first) = join(&mut fleet, 1, "a", 100);
    let (joined, _second) = join(&mut fleet, 2, "a", 100);
    assert!(joined.is_some());
    assert!(!fleet.closed(1, &a));
    assert!(fleet.take(1, &a, &observation(1)).is_none(), "late words on the old stream");
    assert!(fleet.take(2, &a, &observation(1)).is_some());
    assert!(fleet.closed(2, &a));
}

#[test]
fn a_second_agent_of_the_same_name_is_refused_and_the_first_stays() {
    let mut fleet = fleet();
    let (_, mut first) = join(&mut fleet, 1, "a", 100);
    let (joined, mut second) = join(&mut fleet, 2, "a", 200);
    assert!(joined.is_none());
    let refusal = second.try_recv().unwrap().unwrap_err();
    assert!(refusal.message().contains("process 100"), "{refusal}");
    said(&mut first);
    assert!(fleet.take(1, &"a".to_owned(), &observation(1)).is_some());
}

#[test]
fn what_this_version_does_not_know_is_kept_as_it_came() {
    let mut fleet = fleet();
    let (_, _stream) = join(&mut fleet, 1, "a", 100);
    let mut strange = observation(1);
    strange.event_json = br#"{"at":5,"what":{"teleported":{"to":"mars"}}}"#.to_vec();
    let (_, event) = fleet.take(1, &"a".to_owned(), &strange).unwrap();
    let What::Log { line } = event.what else { panic!("{event:?}") };
    assert!(line.contains("mars"), "{line}");
}

#[test]
fn an_agent_that_takes_no_messages_loses_its_stream() {
    let mut fleet = fleet();
    let a = "a".to_owned();
    let (_, _stream) = join(&mut fleet, 1, "a", 100);
    fleet.take(1, &a, &observation(1));
    for _ in 0..5 {
        fleet.acknowledge(&a);
    }
    assert!(!fleet.is_current(1, &a));
}

#[test]
fn the_smallest_clock_difference_is_kept_for_each_agent() {
    let mut fleet = fleet();
    let (_, _a) = join(&mut fleet, 1, "a", 100);
    assert_eq!(fleet.clock_difference(), None);
    for ahead in [900, -300, 500] {
        fleet.heartbeat(&"a".to_owned(), ahead);
    }
    assert_eq!(fleet.clock_difference(), Some(Nanos(300)));
}
