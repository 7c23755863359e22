//! Once, in order, whatever happens between.

use std::{collections::BTreeSet, fs};

use proptest::prelude::*;
use ringbreaker_scenarios::{event::What, units::Nanos};

use super::*;

fn case() -> CaseId {
    CaseId { run: "r".into(), index: 1, attempt: 1 }
}

fn event(at: u64) -> Event {
    Event { at: Nanos(at), rank: None, what: What::Began }
}

fn drain(spool: &Spool, window: usize) -> Vec<u64> {
    std::iter::from_fn(|| spool.next(window).unwrap()).map(|entry| entry.sequence).collect()
}

#[test]
fn observations_are_handed_out_in_order_and_not_twice() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::open(&directory.path().join("spool")).unwrap();
    for at in 1..=3 {
        assert_eq!(spool.append(&case(), event(at)).unwrap(), at);
    }
    assert_eq!(drain(&spool, 2), [1, 2], "the window holds two");
    spool.acknowledge(1).unwrap();
    assert_eq!(drain(&spool, 2), [3]);
    assert_eq!(drain(&spool, 9), [0; 0]);
    assert_eq!(spool.waiting(), 2);
}

#[test]
fn after_a_reconnect_what_is_not_acknowledged_comes_again() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::open(&directory.path().join("spool")).unwrap();
    for at in 1..=4 {
        spool.append(&case(), event(at)).unwrap();
    }
    assert_eq!(drain(&spool, 9), [1, 2, 3, 4]);
    spool.rewind();
    spool.acknowledge(2).unwrap();
    assert_eq!(drain(&spool, 9), [3, 4]);
}

#[test]
fn a_torn_last_line_is_an_observation_that_was_never_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spool");
    let spool = Spool::open(&path).unwrap();
    spool.append(&case(), event(1)).unwrap();
    spool.append(&case(), event(2)).unwrap();
    drop(spool);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let spool = Spool::open(&path).unwrap();
    assert_eq!(spool.append(&case(), event(7)).unwrap(), 2);
    let times: Vec<u64> =
        std::iter::from_fn(|| spool.next(9).unwrap()).map(|entry| entry.event.at.0).collect();
    assert_eq!(times, [1, 7]);
}

#[test]
fn a_file_that_is_no_spool_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spool");
    for text in ["hello\n", "{\"first\":3}\n{\"sequence\":5}\n"] {
        fs::write(&path, text).unwrap();
        let error = Spool::open(&path).unwrap_err();
        assert!(matches!(error, SpoolError::Damaged { .. }), "{text:?}: {error}");
    }
}

#[test]
fn numbers_that_the_controller_already_has_are_never_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::open(&directory.path().join("spool")).unwrap();
    spool.acknowledge(41).unwrap();
    assert_eq!(spool.append(&case(), event(1)).unwrap(), 42);
}

#[test]
fn the_file_shrinks_when_much_of_it_is_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spool");
    let spool = Spool::open(&path).unwrap();
    let long = Event { what: What::Log { line: "x".repeat(64 << 10) }, ..event(1) };
    for _ in 0..40 {
        spool.append(&case(), long.clone()).unwrap();
    }
    let before = fs::metadata(&path).unwrap().len();
    spool.acknowledge(39).unwrap();
    let after = fs::metadata(&path).unwrap().len();
    assert!(after < before / 10, "{before} bytes became {after}");
    assert_eq!(drain(&spool, 9), [40]);
    drop(spool);
    let again = Spool::open(&path).unwrap();
    assert_eq!(drain(&again, 9), [40]);
    assert_eq!(again.append(&case(), event(2)).unwrap(), 41);
}

/// What can happen to a spool, with the controller's side of it.
#[derive(Clone, Debug)]
enum Step {
    Append,
    /// Sent, and stored by the controller.
    Deliver,
    /// The controller's acknowledgement arrives.
    Acknowledge,
    /// The stream is cut; what is on the way in either direction is lost.
    Reconnect,
    /// The agent is killed and starts under its old id.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Append),
        4 => Just(Step::Deliver),
        2 => Just(Step::Acknowledge),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The controller stores what comes with the next number and ignores repetitions, as the real
    /// one does; then its history is everything that was appended, once and in order.
    #[test]
    fn whatever_happens_each_observation_arrives_once_and_in_order(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        let mut appended = 0;
        let mut stored: Vec<u64> = Vec::new();
        let mut numbers = BTreeSet::new();
        let mut receive = |spool: &Spool, stored: &mut Vec<u64>| -> Result<bool, TestCaseError> {
            let Some(entry) = spool.next(5).unwrap() else { return Ok(false) };
            prop_assert!(entry.sequence <= stored.len() as u64 + 1, "a gap before {}", entry.sequence);
            if entry.sequence == stored.len() as u64 + 1 {
                prop_assert!(numbers.insert(entry.sequence));
                stored.push(entry.event.at.0);
            } else {
                prop_assert_eq!(stored[entry.sequence as usize - 1], entry.event.at.0, "a number was given twice");
            }
            Ok(true)
        };
        for step in steps {
            match step {
                Step::Append => {
                    appended += 1;
                    prop_assert_eq!(spool.append(&case(), event(appended)).unwrap(), appended);
                }
                Step::Deliver => { receive(&spool, &mut stored)?; }
                Step::Acknowledge => spool.acknowledge(stored.len() as u64).unwrap(),
                Step::Reconnect => {
                    spool.rewind();
                    spool.acknowledge(stored.len() as u64).unwrap();
                }
                Step::Restart => {
                    drop(spool);
                    spool = Spool::open(&path).unwrap();
                    spool.acknowledge(stored.len() as u64).unwrap();
                }
            }
        }
        // A full window waits for an acknowledgement.
        spool.acknowledge(stored.len() as u64).unwrap();
        while receive(&spool, &mut stored)? {
            spool.acknowledge(stored.len() as u64).unwrap();
        }
        prop_assert_eq!(stored, (1..=appended).collect::<Vec<_>>());
    }
}
