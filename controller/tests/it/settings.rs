//! `settings`: the catalogue as a user meets it, and what is odd about settings as they are.

use std::fs;

use crate::program::Place;

#[test]
fn the_catalogue_is_listed_filtered_and_explained() {
    let place = Place::new();
    let all = place.run(&["settings"]).must_end_with(0);
    assert!(all.stdout.lines().count() > 200, "{}", all.stdout);
    assert!(all.stdout.lines().any(|line| line.starts_with("  NCCL_IB_TIMEOUT ")));
    let nccl2 = place.run(&["settings", "--reads-by", "nccl2", "--format", "json"]);
    let nccl2 = nccl2.must_end_with(0).json();
    let names = |list: &serde_json::Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|doc| doc["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&nccl2).contains(&"TORCH_NCCL_BLOCKING_WAIT".to_owned()));
    assert!(!names(&nccl2).contains(&"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC".to_owned()));
    let found = ["settings", "--layer", "kernel", "--search", "retransmission", "--format", "json"];
    let found = names(&place.run(&found).must_end_with(0).json());
    assert!(found.contains(&"tcp_syn_linear_timeouts".to_owned()), "{found:?}");
    let one = place.run(&["settings", "net.ipv4.tcp_retries2"]).must_end_with(0).stdout;
    assert!(one.starts_with("tcp_retries2") && one.contains("the kernel"), "{one}");
}

#[test]
fn a_name_that_nothing_reads_is_explained_with_the_proof_and_a_misspelt_one_is_refused() {
    let place = Place::new();
    for name in ["NCCL_TIMEOUT", "NCCL_SOCKET_TIMEOUT"] {
        let told = place.run(&["settings", name]).must_end_with(0).stdout;
        let words: Vec<&str> = told.split_whitespace().collect();
        let told = words.join(" ");
        assert!(told.contains("the name is absent from NCCL's source"), "{told}");
    }
    let refused = place.run(&["settings", "NCCL_IB_TIMOUT"]).must_end_with(2);
    assert!(refused.stderr.contains("did you mean NCCL_IB_TIMEOUT?"), "{refused:?}");
    let refused = place.run(&["settings", "--layer", "socks"]).must_end_with(2);
    assert!(refused.stderr.contains("rank, kernel, nccl"), "{refused:?}");
}

#[test]
fn settings_are_checked_as_arguments_in_a_file_and_in_the_environment() {
    let place = Place::new();
    let wrong = ["settings", "--check", "NCCL_IB_TIMEOUT=600", "NCCL_IB_RETRY_CNT=15"];
    let wrong = place.run(&wrong).must_end_with(10).stdout;
    assert!(wrong.contains("NCCL_IB_TIMEOUT=600: an exponent"), "{wrong}");
    assert!(wrong.contains("NCCL_IB_RETRY_CNT=15: out of range"), "{wrong}");
    // Old and still working.
    let old = place.run(&["settings", "--check", "NCCL_BLOCKING_WAIT=1"]).must_end_with(0);
    assert!(old.stdout.contains("right: TORCH_NCCL_BLOCKING_WAIT"), "{old:?}");

    let file = place.scenario("job.env", "export NCCL_SOCKET_TIMEOUT=600\nNCCL_DEBUG=WARN\n");
    let file = file.to_str().unwrap();
    let read = ["settings", "--check", "--env-file", file, "--format", "json"];
    let read = place.run(&read).must_end_with(10).json();
    assert_eq!((read["known"].as_u64(), read["remarks"].as_array().unwrap().len()), (Some(2), 1));
    assert_eq!(read["remarks"][0]["oddity"], "unread");
    fs::write(file, "set -e\n").unwrap();
    let refused = place.run(&["settings", "--check", "--env-file", file]).must_end_with(2);
    assert!(refused.stderr.contains("line 1"), "{refused:?}");

    let mut command = place.command(&["settings", "--check"]);
    let ended = command.env_clear().env("NCCL_SOCKET_RETRY_COUNT", "3").output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(10), "{told}");
    assert!(told.contains("right: NCCL_SOCKET_RETRY_CNT"), "{told}");
}

#[test]
fn odd_settings_of_a_scenario_are_warned_of_with_their_place() {
    let place = Place::new();
    let text = "summary = \"odd\"\n[cluster]\nnodes = 2\nranks_per_node = 1\n[workload]\n\
                collective = \"all_reduce\"\nbytes = \"1 KiB\"\niterations = 1\n[settings]\n\
                NCCL_TIMEOUT = \"2s\"\nNCCL_IB_TIMEOUT = [20, 600]\n";
    let file = place.scenario("odd.toml", text);
    let file = file.to_str().unwrap();
    let checked = place.run(&["check", file]).must_end_with(0);
    assert!(checked.stderr.contains("warning: NCCL_IB_TIMEOUT=600: an exponent"), "{checked:?}");
    assert!(checked.stderr.contains(&format!("{file}:11:24")), "{checked:?}");
    assert!(!checked.stderr.contains("NCCL_TIMEOUT"), "{checked:?}");
    let json = place.run(&["check", file, "--format", "json"]).must_end_with(0).json();
    assert_eq!(json[0]["warnings"][0]["line"], 11, "{json}");
}
