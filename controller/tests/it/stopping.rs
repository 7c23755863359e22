//! `ringbreaker stop`: the kill switch of a machine, with and without a controller.

use nix::sys::signal::Signal;

use crate::{
    interruptions::{finished, midway, must_resume},
    program::Place,
};

#[test]
fn a_stop_ends_a_run_heals_and_holds_until_it_is_released() {
    let place = Place::new();
    let (run, id) = midway(&place);
    let stop = place.run(&["stop", "--reason", "smoke", "--format", "json"]).must_end_with(0);
    let report = stop.json();
    assert_eq!(report["healed"], true, "{report:#}");
    assert_eq!(report["stopped"]["reason"], "smoke");
    let ended = run.end().must_end_with(14);
    assert!(ended.stderr.contains("(smoke)"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("--resume {id}")), "{}", ended.stderr);
    let (planned, done) = finished(&place);
    assert!(planned == 6 && (1..6).contains(&done), "{done} of {planned}");

    let refused = place.run(&["run", "--resume", &id]).must_end_with(14);
    assert!(refused.stderr.contains("stop --release"), "{}", refused.stderr);
    let again = place.run(&["stop"]).must_end_with(0);
    assert!(again.stdout.contains("(smoke)"), "who stopped first is told: {}", again.stdout);
    place.run(&["stop", "--release"]).must_end_with(0);
    let nothing = place.run(&["stop", "--release"]).must_end_with(0);
    assert!(nothing.stdout.contains("nothing was stopped"), "{}", nothing.stdout);
    must_resume(&place, &id);
}

#[test]
fn a_stop_reaches_agents_whose_controller_is_dead_and_heals_what_dead_agents_left() {
    let place = Place::new();
    let (run, id) = midway(&place);
    run.signal(Signal::SIGKILL);
    assert_eq!(run.end().code, None);
    // Within the lease: the agents wait for their controller and hold their faults.
    let stop = place.run(&["stop"]).must_end_with(0);
    assert!(stop.stdout.contains("nothing is in force"), "{}", stop.stdout);
    place.run(&["stop", "--release"]).must_end_with(0);
    must_resume(&place, &id);
}

#[test]
fn a_controller_that_does_not_answer_is_told_of_and_only_loopback_is_dialled() {
    let place = Place::new();
    let unheard = place.run(&["stop", "--controller", "127.0.0.1:1"]).must_end_with(13);
    assert!(unheard.stdout.contains("127.0.0.1:1 was not told"), "{unheard:#?}");
    let refused = place.run(&["stop", "--controller", "192.0.2.1:7447"]).must_end_with(2);
    assert!(refused.stderr.contains("loopback"), "{}", refused.stderr);
}

#[test]
fn agents_with_another_state_directory_are_stopped_through_their_controller() {
    let place = Place::new();
    let file = place.scenario("kill.toml", crate::interruptions::STOP);
    let serve = ["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0", "--backend", "host"];
    let mut serve = place.start(&serve);
    let line = serve.hear("listening on");
    let address = line.split_whitespace().find(|word| word.starts_with("127.")).unwrap();
    let address = address.trim_end_matches(';').to_owned();
    let elsewhere = Place::new();
    let agent = elsewhere.start(&["agent", "--controller", &address]);
    serve.hear("1/6");
    let stop = place.run(&["stop", "--controller", &address, "--format", "json"]).must_end_with(0);
    let report = stop.json();
    assert_eq!(report["runs"][0]["agents"].as_array().map(Vec::len), Some(1), "{report:#}");
    serve.end().must_end_with(14);
    agent.end().must_end_with(0);

    // The switch of its machine holds.
    let switch = elsewhere.run(&["stop", "--release"]).must_end_with(0);
    assert!(switch.stdout.contains("released"), "{}", switch.stdout);
    place.run(&["stop", "--release"]).must_end_with(0);
    place.must_become_clean();
    elsewhere.must_become_clean();
}
