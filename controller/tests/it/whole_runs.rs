//! Whole runs with real agents, ranks and faults on the host stand-in.

use std::fs;

use crate::program::Place;

/// Two ranks; one is killed, the other notices at once. The clean column completes.
pub(crate) const KILL: &str = r#"
summary = "one rank of two is killed"
clean = true
[cluster]
nodes = 2
ranks_per_node = 1
[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 30
interval = "5ms"
[settings]
NCCL_TIMEOUT = "2s"
error_handling = "teardown"
NCCL_SOCKET_TIMEOUT = "600"
NCCL_IB_RETRY_CNT = 15
[[fault]]
when = { iteration = 10 }
target = { rank = 1 }
inject.kill = {}
expect = { outcome = ["failed-clean"] }
"#;

/// Cases of a run, from its JSON report.
fn cases(report: &serde_json::Value) -> &Vec<serde_json::Value> {
    report["cases"].as_array().unwrap_or_else(|| panic!("no cases in {report:#}"))
}

#[test]
fn a_killed_rank_is_noticed_recorded_reported_and_nothing_is_left() {
    let place = Place::new();
    let file = place.scenario("kill.toml", KILL);
    let arguments = ["run", file.to_str().unwrap(), "--backend", "host", "--format", "json"];
    let ended = place.run(&arguments).must_end_with(0);
    let report = ended.json();
    assert_eq!(cases(&report).len(), 2, "{report:#}");
    assert!(ended.stderr.contains("2/2"), "{}", ended.stderr);
    assert!(ended.stderr.contains("failed-clean"), "{}", ended.stderr);
    assert!(ended.stderr.contains("completed"), "{}", ended.stderr);
    assert!(ended.stderr.contains("NCCL_SOCKET_TIMEOUT has no effect"), "{}", ended.stderr);
    assert!(ended.stderr.contains("NCCL_IB_RETRY_CNT=15: out of range"), "{}", ended.stderr);
    place.must_become_clean();

    let runs = place.run(&["runs", "--format", "json"]).must_end_with(0).json();
    assert_eq!((runs[0]["planned"].as_u64(), runs[0]["finished"].as_u64()), (Some(2), Some(2)));
    let id = runs[0]["id"].as_str().unwrap();
    let directory = place.runs().join(id);
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("failed-clean") && !page.contains("http://"), "no page in one file");
    for log in ["cases/0000/rank0.log", "cases/0001/rank1.log", "agent-0.log"] {
        assert!(directory.join(log).exists(), "{log} is missing");
    }
    for format in ["terminal", "html", "junit", "json", "markdown"] {
        let document = place.run(&["report", id, "--format", format]).must_end_with(0);
        assert!(document.stdout.contains("kill"), "{format}: {}", document.stdout);
    }
    let refused = place.run(&["run", "--resume", id]).must_end_with(2);
    assert!(refused.stderr.contains("is complete"), "{}", refused.stderr);
}

#[test]
fn an_expectation_that_does_not_hold_fails_the_run() {
    let place = Place::new();
    let text = KILL.replace("failed-clean", "completed");
    let file = place.scenario("kill.toml", &text);
    let arguments = ["run", file.to_str().unwrap(), "--backend", "host", "--only", "kill"];
    let ended = place.run(&arguments).must_end_with(10);
    assert!(ended.stdout.contains("kill"), "no matrix: {}", ended.stdout);
    place.must_become_clean();
}

#[test]
fn an_agent_that_the_user_starts_serves_a_run() {
    let place = Place::new();
    let file = place.scenario("kill.toml", KILL);
    let mut controller = place.start(&[
        "serve",
        file.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--backend",
        "host",
    ]);
    let line = controller.hear("listening on");
    let address = line.split_whitespace().nth(2).unwrap().trim_end_matches(';').to_owned();
    let agent = place.start(&["agent", "--controller", &address]);
    let served = controller.end().must_end_with(0);
    assert!(served.stderr.contains("2/2"), "{}", served.stderr);
    agent.end().must_end_with(0);
    place.must_become_clean();
}

#[test]
fn a_backend_that_is_not_there_is_refused_with_what_is_missing() {
    let place = Place::new();
    let probe = place.run(&["probe", "--format", "json"]).must_end_with(0).json();
    if probe["gpus"].as_array().is_some_and(|gpus| !gpus.is_empty()) {
        eprintln!("SKIPPED: this machine has a GPU");
        return;
    }
    let refused = place.run(&["run", "quick", "--backend", "nccl"]).must_end_with(12);
    assert!(refused.stderr.contains("no GPU was found"), "{}", refused.stderr);
    place.must_become_clean();
}

#[test]
fn a_user_without_root_gets_what_is_possible_and_the_reason_for_the_rest() {
    let place = Place::new();
    let memory = "[[fault]]\nwhen = { iteration = 10 }\ntarget = { rank = 1 }\n\
                  inject.limit_memory = { leave = \"0 B\" }\n";
    let text = KILL.replace("clean = true", "clean = false") + memory;
    let file = place.scenario("both.toml", &text);
    let file = file.to_str().unwrap();
    let arguments = ["run", file, "--backend", "host", "--format", "json"];
    let ended = place.run_unprivileged(&arguments).must_end_with(11);
    let report = ended.json();
    let case = |column: &str| {
        let found = cases(&report).iter().find(|case| case.to_string().contains(column));
        found.unwrap_or_else(|| panic!("no {column} in {report:#}")).to_string()
    };
    assert!(case("\"kill\"").contains("failed-clean"), "{report:#}");
    let refused = case("limit_memory is not possible here: ");
    assert!(refused.contains("not-runnable"), "{refused}");
    // Which of the three is in the way first depends on the system; each is named.
    let named = ["user namespace", "not root", "/dev/net/tun"];
    assert!(named.iter().any(|reason| refused.contains(reason)), "{refused}");
    assert!(ended.stderr.contains("1 not possible here"), "{}", ended.stderr);
    place.must_become_clean();
}

#[test]
fn a_directory_that_ranks_would_not_see_is_refused_before_it_is_made() {
    let place = Place::new();
    let refused = place.run(&["run", "quick", "--dir", "/dev/shm/ringbreaker-it"]);
    let refused = refused.must_end_with(2);
    assert!(refused.stderr.contains("--dir"), "{}", refused.stderr);
    assert!(!fs::exists("/dev/shm/ringbreaker-it").unwrap());
}
