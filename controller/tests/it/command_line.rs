//! What needs no agent: help, library, checks, stored runs that are not there, refusals.

use std::{fs, path::Path};

use crate::program::Place;

/// The smallest scenario that does something.
const TINY: &str = r#"
summary = "one rank of two is killed"
[cluster]
nodes = 2
ranks_per_node = 1
[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 20
[settings]
NCCL_TIMEOUT = ["1s", "2s"]
[[fault]]
when = { iteration = 5 }
target = { rank = 1 }
inject.kill = {}
"#;

#[test]
fn the_readme_and_the_help_tell_the_same_exit_codes() {
    let help = Place::new().run(&["--help"]).must_end_with(0).stdout;
    let (_, codes) = help.split_once("Exit codes:").unwrap();
    let codes: Vec<(&str, &str)> =
        codes.lines().filter_map(|line| line.trim().split_once("  ")).collect();
    assert_eq!(codes.len(), 9, "{codes:?}");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    if !readme.contains("xit code") {
        eprintln!("SKIPPED: the README does not list exit codes");
        return;
    }
    for (code, meaning) in codes {
        let told =
            readme.lines().any(|l| l.contains(&format!("| {code} |")) && l.contains(meaning));
        assert!(told, "README: no row `| {code} | {meaning} |`");
    }
}

#[test]
fn every_subcommand_explains_itself() {
    let place = Place::new();
    for subcommand in [
        "run",
        "list",
        "show",
        "check",
        "report",
        "runs",
        "serve",
        "agent",
        "recover",
        "probe",
        "bench",
        "schema",
        "settings",
        "completions",
    ] {
        let help = place.run(&[subcommand, "--help"]).must_end_with(0).stdout;
        assert!(help.contains("Usage: ringbreaker"), "{subcommand}: {help}");
    }
}

#[test]
fn the_library_is_listed_for_people_and_for_machines() {
    let place = Place::new();
    let text = place.run(&["list"]).must_end_with(0).stdout;
    assert!(text.lines().any(|line| line.starts_with("quick ")), "{text}");
    let list = place.run(&["list", "--format", "json"]).must_end_with(0).json();
    let quick = list.as_array().unwrap().iter().find(|s| s["name"] == "quick").unwrap();
    assert!(quick["cases"].as_u64().unwrap() > 1, "{quick}");
    assert!(quick["summary"].is_string() && quick["columns"].is_array(), "{quick}");
}

#[test]
fn show_prints_the_whole_plan_and_the_same_one_for_the_same_seed() {
    let place = Place::new();
    let file = place.scenario("tiny.toml", TINY);
    let file = file.to_str().unwrap();
    let text = place.run(&["show", file]).must_end_with(0).stdout;
    assert!(text.contains("kill rank 1") && text.contains("NCCL_TIMEOUT=2s"), "{text}");
    let show = |seed| place.run(&["show", "quick", "--seed", seed, "--format", "json"]).json();
    assert_eq!(show("7"), show("7"));
    assert_ne!(show("7")["cases"], show("8")["cases"]);
}

#[test]
fn set_repeat_and_only_shape_the_plan() {
    let place = Place::new();
    let file = place.scenario("tiny.toml", TINY);
    let show = |more: &[&str]| {
        let mut arguments = vec!["show", file.to_str().unwrap(), "--format", "json"];
        arguments.extend(more);
        let plan = place.run(&arguments).must_end_with(0).json();
        plan["cases"].as_array().unwrap().clone()
    };
    assert_eq!(show(&[]).len(), 2);
    assert_eq!(show(&["--repeat", "3"]).len(), 6);
    let one = show(&["--only", "case=1"]);
    assert_eq!((one.len(), one[0]["index"].as_u64()), (1, Some(1)));
    let set = show(&["--set", "NCCL_TIMEOUT=7s"]);
    assert_eq!((set.len(), set[0]["settings"]["NCCL_TIMEOUT"].as_str()), (1, Some("7s")));
    let swept = show(&["--set", "op_timeout=1s", "--set", "op_timeout=3s"]);
    assert_eq!(swept.len(), 4);
}

#[test]
fn check_reports_every_problem_with_its_place_and_ends_with_2() {
    let place = Place::new();
    let right = place.scenario("right.toml", TINY);
    let wrong = TINY.replace("rank = 1", "rank = 9").replace("4 KiB", "4 parsecs");
    let wrong = place.scenario("wrong.toml", &wrong);
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    assert!(place.run(&["check", right, "quick"]).must_end_with(0).stdout.contains("2 cases"));
    let bad = place.run(&["check", right, wrong]).must_end_with(2);
    assert!(bad.stderr.contains(&format!("{wrong}:8:9")), "{}", bad.stderr);
    assert!(bad.stderr.contains("2 problems"), "{}", bad.stderr);
    let json = place.run(&["check", wrong, "--format", "json"]).must_end_with(2).json();
    assert_eq!(json[0]["right"], false);
    assert_eq!(json[0]["problems"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json[0]["problems"][0]["line"], 8, "{json}");
}

#[test]
fn an_unknown_scenario_is_refused_with_the_nearest_name() {
    let place = Place::new();
    for command in ["run", "show", "check", "serve"] {
        let refused = place.run(&[command, "quik"]).must_end_with(2);
        assert!(refused.stderr.contains("did you mean \"quick\""), "{}", refused.stderr);
    }
    let refused = place.run(&["run", "missing.toml"]).must_end_with(2);
    assert!(refused.stderr.contains("failed to read the scenario missing.toml"), "{refused:?}");
}

#[test]
fn a_wrong_setting_or_filter_is_refused_before_anything_is_started() {
    let place = Place::new();
    for (arguments, part) in [
        (["--set", "error_handling=perhaps"], "perhaps"),
        (["--set", "NCCL_TIMEOUT"], "NAME=VALUE"),
        (["--only", "nothing-like-this"], "no case matches"),
        (["--lease", "10ms"], "lease"),
    ] {
        let mut all = vec!["run", "quick"];
        all.extend(arguments);
        let refused = place.run(&all).must_end_with(2);
        assert!(refused.stderr.contains(part), "{arguments:?}: {}", refused.stderr);
    }
    assert!(place.left_in_state().is_empty());
}

#[test]
fn listening_beyond_this_machine_is_refused() {
    let place = Place::new();
    let refused = place.run(&["serve", "quick", "--listen", "0.0.0.0:0"]).must_end_with(2);
    assert!(refused.stderr.contains("mutual TLS is not there yet"), "{}", refused.stderr);
}

#[test]
fn reports_on_runs_that_are_not_there_say_how_to_make_one() {
    let place = Place::new();
    for arguments in [vec!["report"], vec!["runs"], vec!["report", "20200101-000000-0000"]] {
        let refused = place.run(&arguments).must_end_with(2);
        assert!(refused.stderr.contains("ringbreaker run quick"), "{}", refused.stderr);
    }
    let refused = place.run(&["run", "--resume", "20200101-000000-0000"]).must_end_with(2);
    assert!(refused.stderr.contains("no run"), "{}", refused.stderr);
}

#[test]
fn recover_has_nothing_to_do_in_an_empty_state_directory() {
    let place = Place::new();
    assert!(place.run(&["recover"]).must_end_with(0).stdout.contains("nothing to undo"));
}

#[test]
fn completions_are_printed_for_the_usual_shells() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = place.run(&["completions", shell]).must_end_with(0).stdout;
        assert!(text.contains("ringbreaker"), "{shell}");
    }
}

#[test]
fn the_schema_is_one_that_editors_understand() {
    let schema = Place::new().run(&["schema"]).must_end_with(0).json();
    assert!(schema["$schema"].is_string(), "{schema}");
    assert!(schema["properties"]["workload"].is_object(), "{schema}");
}

#[test]
fn the_probe_says_of_every_fault_whether_it_is_possible_and_why_not() {
    let place = Place::new();
    let probe = place.run(&["probe", "--format", "json"]).must_end_with(0).json();
    let faults = probe["faults"].as_array().unwrap();
    assert_eq!(faults.len(), ringbreaker_scenarios::fault::FaultKind::NAMES.len());
    for fault in faults {
        let explained = !fault["reason"].as_str().unwrap().is_empty();
        assert!(fault["possible"] == true || explained, "{fault}");
    }
    let text = place.run(&["probe"]).must_end_with(0).stdout;
    assert!(text.contains("kill             possible"), "{text}");
}
