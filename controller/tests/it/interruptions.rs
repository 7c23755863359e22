//! Ctrl-C, a killed controller, a killed agent: nothing remains, and the rest can be finished.

use std::{fs, path::Path};

use nix::sys::signal::Signal;

use crate::program::{Place, Running, eventually};

/// Six cases in which a stopped rank is noticed after a second; it stays until the cap.
pub(crate) const STOP: &str = r#"
summary = "one rank of two is stopped"
repetitions = 6
case_cap = "4s"
[cluster]
nodes = 2
ranks_per_node = 1
[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 2000
interval = "5ms"
[settings]
op_timeout = "1s"
error_handling = "teardown"
[[fault]]
when = { iteration = 10 }
target = { rank = 1 }
inject.stop = {}
"#;

/// A run in which two cases are in flight and at least one is done.
pub(crate) fn midway(place: &Place) -> (Running, String) {
    let file = place.scenario("stop.toml", STOP);
    let arguments =
        ["run", file.to_str().unwrap(), "--backend", "host", "--lanes", "2", "--lease", "2s"];
    let mut run = place.start(&arguments);
    let line = run.hear("run 2");
    let id = line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned();
    run.hear("1/6");
    (run, id)
}

pub(crate) fn finished(place: &Place) -> (u64, u64) {
    let runs = place.run(&["runs", "--format", "json"]).must_end_with(0).json();
    (runs[0]["planned"].as_u64().unwrap(), runs[0]["finished"].as_u64().unwrap())
}

/// Finishes the rest and looks at the whole.
pub(crate) fn must_resume(place: &Place, id: &str) {
    let ended = place.run(&["run", "--resume", id]);
    assert!(matches!(ended.code, Some(0 | 10 | 11)), "{ended:#?}");
    assert_eq!(finished(place), (6, 6), "{ended:#?}");
    place.must_become_clean();
}

#[test]
fn ctrl_c_heals_leaves_nothing_and_the_rest_can_be_finished() {
    let place = Place::new();
    let (run, id) = midway(&place);
    run.signal(Signal::SIGINT);
    run.signal(Signal::SIGINT);
    let ended = run.end().must_end_with(130);
    assert!(ended.stderr.contains(&format!("--resume {id}")), "{}", ended.stderr);
    place.must_become_clean();
    let (planned, done) = finished(&place);
    assert!(planned == 6 && (1..6).contains(&done), "{done} of {planned}");
    must_resume(&place, &id);
}

#[test]
fn a_killed_controller_leaves_nothing_within_a_lease_and_the_store_intact() {
    let place = Place::new();
    let (run, id) = midway(&place);
    run.signal(Signal::SIGKILL);
    assert_eq!(run.end().code, None);
    place.must_become_clean();
    let (planned, done) = finished(&place);
    assert!(planned == 6 && (1..6).contains(&done), "{done} of {planned}");
    must_resume(&place, &id);
}

#[test]
fn a_killed_agent_costs_one_attempt_and_the_run_goes_on() {
    let place = Place::new();
    let (run, _) = midway(&place);
    let agent = an_agent_of(&run);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent), Signal::SIGKILL).unwrap();
    let ended = run.end();
    assert!(matches!(ended.code, Some(0 | 10 | 11)), "{ended:#?}");
    assert!(ended.stderr.contains("6/6"), "{}", ended.stderr);
    assert!(ended.stderr.contains("is tried once more"), "{}", ended.stderr);
    assert_eq!(finished(&place), (6, 6));
    place.must_become_clean();
}

#[test]
fn an_agent_that_its_user_ends_costs_one_attempt_and_another_takes_over() {
    let place = Place::new();
    let file = place.scenario("stop.toml", &STOP.replace("repetitions = 6", "repetitions = 1"));
    let arguments =
        ["serve", file.to_str().unwrap(), "--backend", "host", "--lease", "2s", "--listen"];
    let mut controller = place.start(&[&arguments[..], &["127.0.0.1:0"]].concat());
    let line = controller.hear("listening on");
    let address = line.split_whitespace().nth(2).unwrap().trim_end_matches(';').to_owned();
    let first = place.start(&["agent", "--controller", &address]);
    eventually("two ranks", || {
        let ranks = place.processes().iter().filter(|line| line.contains(" rank --spec")).count();
        if ranks == 2 { Ok(()) } else { Err(format!("{ranks} ranks")) }
    });
    first.signal(Signal::SIGTERM);
    first.end();
    let second = place.start(&["agent", "--controller", &address]);
    let ended = controller.end();
    assert!(matches!(ended.code, Some(0 | 10)), "{ended:#?}");
    assert!(ended.stderr.contains("is tried once more"), "{}", ended.stderr);
    second.end().must_end_with(0);
    let report = place.run(&["report", "--format", "json"]).json();
    assert_eq!(report["cases"][0]["attempt"], 2, "{report:#}");
    assert_eq!(report["counts"]["unknown"], 0, "{report:#}");
    place.must_become_clean();
}

/// A child of the controller that serves a lane.
fn an_agent_of(controller: &Running) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", controller.pid());
    let mut found = None;
    eventually("an agent", || {
        let text = fs::read_to_string(Path::new(&children)).map_err(|e| e.to_string())?;
        let of_any_thread = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", controller.pid())).ok()?;
            tasks.flatten().find_map(|task| {
                let text = fs::read_to_string(task.path().join("children")).ok()?;
                text.split_whitespace().next()?.parse().ok()
            })
        };
        found =
            text.split_whitespace().next().and_then(|pid| pid.parse().ok()).or_else(of_any_thread);
        found.map(drop).ok_or_else(|| "no child".to_owned())
    });
    found.unwrap()
}
