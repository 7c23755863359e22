//! `ringbreaker audit`: what is left on this machine. Others test here at the same time, so only what
//! this test left is looked for, and its absence afterwards.

use std::{fs, io::Write, path::Path, process::Stdio};

use crate::program::Place;

/// What was found that names this, and the exit code.
fn found(place: &Place, name: &str) -> (Vec<serde_json::Value>, Option<i32>) {
    let ended = place.run(&["audit", "--format", "json"]);
    let code = ended.code;
    let report = ended.json();
    let all = report["found"].as_array().unwrap().clone();
    assert_eq!(code, Some(if all.is_empty() { 0 } else { 10 }), "{report:#}");
    let names = |one: &serde_json::Value| one["what"].as_str().unwrap().contains(name);
    (all.into_iter().filter(names).collect(), code)
}

/// A file that vanishes with the test.
struct Segment(String);

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_segment_of_a_dead_job_is_found_until_it_is_removed_and_one_in_use_is_not() {
    let place = Place::new();
    let name = format!("nccl-it{}", std::process::id());
    let segment = Segment(format!("/dev/shm/{name}"));
    let file = fs::File::create(&segment.0).unwrap();
    assert_eq!(found(&place, &name).0, [] as [serde_json::Value; 0], "this test has it open");
    drop(file);
    let (left, code) = found(&place, &name);
    assert_eq!((left.len(), code), (1, Some(10)), "{left:#?}");
    assert_eq!((&left[0]["whose"], &left[0]["kind"]), (&"job".into(), &"shared-memory".into()));
    assert!(place.run(&["audit"]).stdout.contains(&format!("`rm {}`", segment.0)));
    drop(segment);
    assert_eq!(found(&place, &name).0.len(), 0);
}

#[test]
fn the_journal_of_a_dead_agent_is_found_until_it_is_recovered() {
    let place = Place::new();
    let directory = place.state().join("agent-dead");
    fs::create_dir(&directory).unwrap();
    let ballast = place.state().join("ringbreaker-ballast-0");
    fs::write(&ballast, "x").unwrap();
    let undo =
        format!(r#"{{"undo":{{"entry":0,"undo":{{"remove-file":{{"path":{ballast:?}}}}}}}}}"#);
    // Process ids end below 2^22.
    let journal = format!("{{\"owner\":{{\"pid\":8388608}}}}\n{undo}\n");
    fs::write(directory.join("journal"), journal).unwrap();

    let (left, _) = found(&place, "agent-dead");
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(left[0]["remedy"], "`ringbreaker recover`");
    assert!(ballast.exists(), "the audit changes nothing");
    place.run(&["recover"]).must_end_with(0);
    assert!(!ballast.exists());
    assert_eq!(found(&place, "agent-dead").0.len(), 0);
}

#[test]
fn a_helper_without_an_agent_is_found_while_it_lives() {
    let place = Place::new();
    let journal = place.state().join("nothing");
    let mut guard = place.command(&["guard", "--journal", journal.to_str().unwrap()]);
    let mut guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let name = format!("process {} ", guard.id());
    let exe = format!("/proc/{}/exe", guard.id());
    let started =
        || fs::read_link(&exe).is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_ringbreaker")));
    crate::program::eventually("the guard", || started().then_some(()).ok_or(exe.clone()));
    let (left, _) = found(&place, &name);
    // A guard says good-bye before it leaves without healing.
    guard.stdin.take().unwrap().write_all(b"q").unwrap();
    assert!(guard.wait().unwrap().success());
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(found(&place, &name).0.len(), 0);
}
