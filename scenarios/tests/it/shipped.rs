//! Every shipped scenario is right, explains itself, and its plan is what it was.

use std::{fs, path::Path};

use ringbreaker_scenarios::{
    library,
    plan::{self, Options},
};

#[test]
fn every_shipped_scenario_becomes_this_plan() {
    for shipped in library::all() {
        let scenario = shipped.parse().unwrap_or_else(|problems| panic!("{problems}"));
        let cases = plan::plan(&scenario, &Options { seed: 1, ..Options::default() }).unwrap();
        insta::assert_snapshot!(shipped.name, plan::describe(&cases));
    }
}

#[test]
fn every_shipped_scenario_begins_with_its_hypothesis_faults_and_what_nccl_is_to_do() {
    for shipped in library::all() {
        let comment: Vec<&str> =
            shipped.text.lines().take_while(|line| line.starts_with('#')).collect();
        let comment = comment.join("\n");
        assert!(comment.starts_with("# Hypothesis: "), "{}", shipped.name);
        assert!(comment.contains("\n# Fault"), "{}", shipped.name);
        assert!(comment.contains("# What NCCL is expected to do"), "{}", shipped.name);
    }
}

#[test]
fn every_case_of_a_shipped_scenario_expects_an_outcome() {
    for shipped in library::all() {
        let cases = plan::plan(&shipped.parse().unwrap(), &Options::default()).unwrap();
        for case in cases {
            let cell = format!("{} {} {}", shipped.name, case.column, case.row_label());
            assert!(!case.expect.outcome.is_empty(), "{cell}");
        }
    }
}

#[test]
fn every_file_of_the_library_is_shipped() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("library");
    let mut files: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut names: Vec<&str> = library::all().iter().map(|shipped| shipped.name).collect();
    files.sort();
    names.sort_unstable();
    assert_eq!(files, names);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    assert_eq!(library::find("quick").unwrap().name, "quick");
    let error = library::find("partitoin").unwrap_err().to_string();
    assert!(error.contains("\"partition\""), "{error}");
}
