//! `settings`: the catalogue as a user meets it, and what is odd about settings as they are.

use std::{fs, path::Path};

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
    // What is about a name is said once, at the name, however many values are swept.
    let checked = place.run(&["check", "unread-settings"]).must_end_with(0).stderr;
    assert_eq!(checked.matches("warning: NCCL_SOCKET_TIMEOUT: no library").count(), 1, "{checked}");
}

/// The row of a setting in a proof.
fn row<'a>(proof: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = proof["settings"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {proof:#}"))
}

#[test]
fn names_are_proved_by_the_bytes_of_the_library_and_values_traced_to_where_they_come_from() {
    let place = Place::new();
    let library =
        place.scenario("libnccl.so.2", "\0NCCL_DEBUG\0NCCL_IB_TIMEOUT\0NCCL_SHM_DISABLE\0");
    let conf = place.scenario("nccl.conf", "#x\nNCCL_DEBUG=INFO\nNCCL_IB_TIMEOUT=600\n");
    let names =
        ["NCCL_DEBUG", "NCCL_IB_TIMEOUT", "NCCL_SOCKET_TIMEOUT", "NCCL_SHM_DISABLE", "MINE"];
    // Small, and so soon looked into.
    let torch = place.scenario("libtorch_cpu.so", "\0MINE\0");
    let prove = |more: &[&str]| {
        let mut arguments = vec!["settings", "--prove", "--nccl", library.to_str().unwrap()];
        arguments.extend(["--torch", torch.to_str().unwrap()]);
        arguments.extend(names);
        arguments.extend(more);
        let mut command = place.command(&arguments);
        command
            .env("NCCL_CONF_FILE", &conf)
            .env("NCCL_DEBUG", "WARN")
            .env_remove("NCCL_SHM_DISABLE");
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let proof: serde_json::Value = serde_json::from_str(&prove(&["--format", "json"])).unwrap();
    // The file is no library, and is looked into all the same.
    let remark = proof["libraries"][0]["remark"].as_str().unwrap();
    assert!(remark.contains("it does not load here"), "{remark}");
    for (name, contained, value) in [
        ("NCCL_DEBUG", "whole", "WARN"),
        ("NCCL_IB_TIMEOUT", "whole", "600"),
        ("NCCL_SOCKET_TIMEOUT", "absent", "none"),
        ("NCCL_SHM_DISABLE", "whole", "0"),
    ] {
        let row = row(&proof, name);
        assert_eq!(row["contained"][0], contained, "{row}");
        assert_eq!(row["in_force"]["value"], value, "{row}");
    }
    assert_eq!(row(&proof, "NCCL_DEBUG")["in_force"]["origin"], "environment");
    assert_eq!(row(&proof, "NCCL_SHM_DISABLE")["in_force"]["origin"], "default");
    let from_file = row(&proof, "NCCL_IB_TIMEOUT");
    assert_eq!(from_file["in_force"]["origin"]["file"], conf.to_str().unwrap(), "{from_file}");
    assert!(from_file["remark"].as_str().unwrap().contains("an exponent"), "{from_file}");
    let mine = row(&proof, "MINE");
    assert_eq!(mine["remark"], "not in the catalogue");
    assert_eq!(mine["contained"][0], "absent");
    assert_eq!(mine["contained"][1], "whole");

    let text = prove(&[]);
    assert!(text.contains(&format!("{}: read", conf.display())), "{text}");
    let debug = text.lines().find(|line| line.starts_with("NCCL_DEBUG ")).unwrap();
    assert!(debug.contains("yes") && debug.contains("hides INFO of"), "{debug}");
}

#[test]
fn a_library_that_is_not_there_is_said_to_be_so() {
    let place = Place::new();
    for option in ["--nccl", "--torch"] {
        let gone = place.run(&["settings", "--prove", "NCCL_DEBUG", option, "/nonexistent.so"]);
        assert!(gone.must_end_with(12).stderr.contains("reading /nonexistent.so"), "{option}");
    }
    let empty = place.runs();
    let none = ["settings", "--prove", "NCCL_DEBUG", "--torch", empty.to_str().unwrap()];
    assert!(place.run(&none).must_end_with(2).stderr.contains("has no lib/libtorch_cpu.so"));
}

#[test]
fn a_real_pytorch_reads_what_the_catalogue_says_it_reads() {
    const DEBIAN: &str = "/usr/lib/python3/dist-packages/torch";
    if !Path::new(DEBIAN).exists() {
        println!("SKIPPED: python3-torch is not installed, so no real PyTorch was looked into");
        return;
    }
    let place = Place::new();
    let names = ["MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "NCCL_TIMEOUT", "NCCL_SOCKET_TIMEOUT"];
    let mut arguments = vec!["settings", "--prove", "--torch", DEBIAN, "--format", "json"];
    arguments.extend(names);
    let proof = place.run(&arguments).must_end_with(0).json();
    assert!(proof["libraries"][1]["title"].as_str().unwrap().starts_with("PyTorch "), "{proof}");
    let contained = names.map(|name| row(&proof, name)["contained"][1].as_str().unwrap());
    assert_eq!(contained, ["whole", "whole", "absent", "absent"], "{proof:#}");
    for name in names {
        assert_eq!(row(&proof, name)["remark"], "", "{name} is not as the catalogue says");
    }
}

#[test]
fn the_ladder_orders_timers_and_names_those_that_can_never_fire() {
    let place = Place::new();
    let ladder = |more: &[&str]| {
        let mut arguments = vec!["settings", "--ladder"];
        arguments.extend(more);
        place.run(&arguments).must_end_with(0)
    };
    let text = ladder(&["op_timeout=10s", "NCCL_IB_TIMEOUT=22"]).stdout;
    let never = "! silent-over-infiniband: InfiniBand's retries of NCCL_IB_TIMEOUT=22 (120 s or later) can never fire: the \
                 rank's deadline of op_timeout=10s";
    assert!(text.contains(never), "{text}");
    let torch = ["--stack", "process-group-nccl", "--torchrun", "NCCL_TIMEOUT=30"];
    let json =
        ladder(&[&torch[..], &["--torch-version", "2.11", "--format", "json"]].concat()).json();
    let situations = json["situations"].as_array().unwrap();
    let silent = situations.iter().find(|s| s["name"] == "silent-over-sockets").unwrap();
    assert_eq!(silent["rungs"][0]["name"], "the group's timeout", "{silent:#}");
    assert_eq!(silent["rungs"][0]["earliest"], 30_000_000_000_u64, "{silent:#}");
    let refused = place.run(&["settings", "--torchrun"]).must_end_with(2);
    assert!(refused.stderr.contains("--ladder"), "{refused:?}");
}

#[test]
fn a_scenario_whose_timer_can_never_fire_is_warned_of() {
    let place = Place::new();
    let text = "summary = \"late\"\n[cluster]\nnodes = 2\nranks_per_node = 1\n[workload]\n\
                collective = \"all_reduce\"\nbytes = \"1 KiB\"\niterations = 1\n[settings]\n\
                op_timeout = \"2s\"\ntcp_retries2 = 8\n";
    let file = place.scenario("late.toml", text);
    let checked = place.run(&["check", file.to_str().unwrap()]).must_end_with(0);
    let lost = "warning: the kernel's retransmissions of tcp_retries2=8 (102 s or later) can never";
    assert!(checked.stderr.contains(lost), "{checked:?}");
}
