//! The host stand-in is held to what real NCCL was recorded to do: the same outcome, detector and
//! error class in every recorded cell, but for the differences that
//! scenarios/recorded/differences.toml lists with their reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use ringbreaker_reports::recording::{
    Aspect, Recording, compare,
    known::{Known, Problem},
    read, write_one,
};
use ringbreaker_scenarios::words::{Backend, Detector, Outcome};

use crate::program::Place;

/// Fewer repetitions show too little of what NCCL can do in a cell.
const REPETITIONS: usize = 3;

/// A small scenario in which no luck decides who notices: a port that is taken fails one call of
/// one rank.
const TAKEN_PORT: &str = r#"
summary = "the rendezvous port is taken"
case_cap = "3s"

[cluster]
nodes = 2
ranks_per_node = 1
rendezvous_port = 29500

[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 10

[settings]
NCCL_TIMEOUT = "1s"
error_handling = ["teardown", "none"]

[[fault]]
when = { phase = "before-init" }
target = { node = 0 }
inject.take_port = {}
"#;

/// One change of a recording.
type Change = fn(&mut Recording);

/// Scenarios that run at the same time; their ranks mostly wait.
const SIDE_BY_SIDE: usize = 3;

fn recorded_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/recorded")
}

fn known_differences() -> Known {
    let path = recorded_dir().join("differences.toml");
    let text = fs::read_to_string(&path).unwrap();
    Known::parse(&text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

/// Runs these scenarios on the stand-in and reads what it recorded.
fn host_recordings(scenarios: &BTreeSet<String>) -> Vec<Recording> {
    let waiting = Mutex::new(scenarios.iter());
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some(scenario) = waiting.lock().unwrap().next() else { return };
                    found.lock().unwrap().extend(host_recording(scenario));
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn host_recording(scenario: &str) -> Vec<Recording> {
    let place = Place::new();
    let dir = place.runs().join("recorded");
    let arguments = ["run", scenario, "--backend", "host", "--quiet", "--record"];
    let ended = place.run(&[&arguments[..], &[dir.to_str().unwrap()]].concat());
    // A verdict is not asked for here: 0, 10 and 11 all mean that everything was run.
    let code = ended.code.unwrap();
    assert!([0, 10, 11].contains(&code), "{scenario} ended with {code}: {}", ended.stderr);
    read(&dir).unwrap()
}

fn sentences(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n- {problem}")).collect()
}

#[test]
fn the_stand_in_does_what_nccl_was_recorded_to_do() {
    let recorded = read(&recorded_dir()).unwrap();
    let known = known_differences();
    if recorded.is_empty() {
        assert_eq!(known.difference, [], "differences from recordings that are not there");
        eprintln!(
            "SKIPPED: no recordings in scenarios/recorded; .ci/h200-record makes them on a machine \
             with a GPU"
        );
        return;
    }
    for recording in &recorded {
        let cell = format!("{} / {} / {:?}", recording.scenario, recording.column, recording.row);
        assert_eq!(recording.stack.backend, Backend::Nccl, "{cell}");
        assert!(recording.repetitions.len() >= REPETITIONS, "{cell}: too few repetitions");
    }
    let scenarios = recorded.iter().map(|recording| recording.scenario.clone()).collect();
    let problems = known.check(&compare(&recorded, &host_recordings(&scenarios)));
    assert!(problems.is_empty(), "the stand-in differs from real NCCL:{}", sentences(&problems));
}

/// The same machinery, held against recordings of the stand-in itself: without a change nothing
/// differs, each planted change is found, named, and accepted once it is listed.
#[test]
fn a_stand_in_that_does_otherwise_is_found() {
    let place = Place::new();
    let file = place.scenario("taken.toml", TAKEN_PORT);
    let scenarios = BTreeSet::from([file.to_str().unwrap().to_owned()]);
    let first = host_recordings(&scenarios);
    let second = host_recordings(&scenarios);
    assert_eq!(first.len(), 2);
    assert_eq!(compare(&first, &second), []);

    let planted: [(Aspect, Change); 4] = [
        (Aspect::Outcome, |r| r.repetitions[0].outcome = Outcome::Crashed),
        (Aspect::Detector, |r| r.repetitions[0].detector = Detector::Kernel),
        (Aspect::ErrorClass, |r| r.repetitions[0].error_class = Some("ncclFutureError".to_owned())),
        (Aspect::Missing, |r| r.row = BTreeMap::from([("NCCL_NEVER".to_owned(), "1".to_owned())])),
    ];
    for (aspect, change) in planted {
        let place = Place::new();
        let dir = place.runs();
        let mut other = first[0].clone();
        change(&mut other);
        // By way of files, as real recordings are read.
        write_one(&dir, &other).unwrap();
        let differences = compare(&read(&dir).unwrap(), &second);
        let aspects: Vec<Aspect> = differences.iter().map(|d| d.aspect).collect();
        assert_eq!(aspects, [aspect], "{differences:?}");
        assert_eq!(differences[0].column, other.column);
        let unlisted = Known::default().check(&differences);
        assert!(matches!(&unlisted[..], [Problem::Unlisted(_)]), "{}", sentences(&unlisted));
    }
}
