//! Whole runs of faults of ports, /dev/shm, storage and clocks on the host stand-in: each is felt as its
//! scenario says, and nothing is left.

use crate::program::Place;

const SCENARIO: &str = r#"
summary = "faults of resources"
[cluster]
nodes = 2
ranks_per_node = 1
rendezvous_port = 29500
[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 30
interval = "5ms"
checkpoint = { every = 5, bytes = "256 KiB", ranks = "first" }
[settings]
NCCL_TIMEOUT = "2s"
error_handling = "teardown"
shm_size = "64 MiB"
[[fault]]
name = "mute stranger"
when = { phase = "before-init" }
target = { node = 0 }
inject.mute_listener = {}
expect = { outcome = "failed-clean", detector = "rank-watchdog" }
[[fault]]
name = "1 port"
when = { phase = "before-init" }
target = { node = 1 }
inject.narrow_ports = { to = 1 }
expect = { outcome = "failed-clean", detector = ["call-error", "async-error"] }
[[fault]]
name = "stale files"
when = { phase = "before-init" }
target = { node = 1 }
inject.stale_shm = { each = "40 MiB" }
expect = { outcome = "failed-clean", no_leftovers = false }
[[fault]]
name = "no inodes"
when = { phase = "before-init" }
target = { node = 1 }
inject.exhaust_shm_inodes = {}
expect = { outcome = "failed-clean" }
[[fault]]
name = "read-only shm"
when = { phase = "before-init" }
target = { node = 1 }
inject.read_only_shm = {}
expect = { outcome = "failed-clean" }
[[fault]]
name = "full storage"
when = { iteration = 12 }
target = { node = 0 }
inject.fill_storage = { leave = "64 KiB" }
expect = { outcome = "failed-clean", detector = "checkpoint" }
[[fault]]
name = "closed storage for a while"
when = { iteration = 11 }
target = { node = 1 }
lasts = "20ms"
inject.read_only_storage = {}
expect = { outcome = ["completed", "degraded"], detector = "nobody" }
[[fault]]
name = "another uptime"
when = { phase = "before-init" }
target = { rank = 1 }
inject.shift_clock = { ahead = "600h" }
expect = { outcome = ["completed", "degraded"], detector = "nobody" }
"#;

#[test]
fn faults_of_resources_are_felt_healed_and_leave_nothing() {
    let place = Place::new();
    let probe = place.run(&["probe", "--format", "json"]).must_end_with(0).json();
    if probe["isolation"] == "plain" {
        eprintln!("SKIPPED: no namespaces on this machine");
        return;
    }
    let file = place.scenario("resources.toml", SCENARIO);
    let arguments = ["run", file.to_str().unwrap(), "--backend", "host", "--format", "json"];
    let report = place.run(&arguments).must_end_with(0).json();
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8, "{report:#}");
    for case in cases {
        let fault = &case["report"]["faults"][0];
        assert!(fault["evidence"].is_string(), "no witness: {case:#}");
        assert!(fault["healed"].is_u64() && fault["heal_failed"].is_null(), "{case:#}");
        let left = &case["report"]["job"]["leftovers_of_harness"];
        assert_eq!(left.as_array().map(Vec::len), Some(0), "{case:#}");
    }
    place.must_become_clean();
}
