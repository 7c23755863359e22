//! Every refusal: its place, its words, and what it says would be right. One snapshot a file of
//! `invalid/`; each holds all problems of the file.

use std::{fs, path::Path};

use ringbreaker_scenarios::scenario::Scenario;

fn snapshot(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/invalid/{name}.toml"));
    let text = fs::read_to_string(path).unwrap();
    let problems = Scenario::parse(&format!("{name}.toml"), &text).unwrap_err();
    insta::assert_snapshot!(name, problems.render(false));
}

macro_rules! refused {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(#[test] fn $test() { snapshot($name) })+

        #[test]
        fn every_invalid_file_has_a_test() {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/invalid");
            let mut files: Vec<String> = fs::read_dir(directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            let mut tested = [$(concat!($name, ".toml")),+];
            files.sort();
            tested.sort();
            assert_eq!(files, tested);
        }
    };
}

refused! {
    all_problems_of_a_file_come_together: "many_at_once",
    what_is_not_toml_is_said_for_each_place: "syntax",
    what_is_missing_is_named: "missing",
    wrong_units_types_and_ranges_are_refused: "units_and_types",
    a_size_that_does_not_divide_into_elements_is_refused: "whole_elements",
    targets_must_exist_and_fit_the_kind: "targets",
    a_fault_must_be_able_to_happen_when_it_is_to: "triggers",
    lives_leases_names_and_parameters_must_fit: "lives",
    faults_of_resources_must_be_possible: "resources",
    a_deadline_must_end_before_the_case_does: "cap",
    a_sweep_of_a_thousand_million_cases_is_refused_and_not_made: "too_large",
    a_single_rank_has_only_settings_of_ranks: "per_rank",
    an_exception_must_be_about_some_case: "exceptions",
    a_single_rank_is_refused: "single_rank",
    a_single_node_has_no_links: "no_links",
}

#[test]
fn problems_are_json_with_place_text_and_what_is_right() {
    let text = "summary = \"x\"\nnodse = 3\n[cluster]\nnodes = 2\nranks_per_node = 1\n\
                [workload]\ncollective = \"reduce\"\nbytes = \"4 B\"\niterations = 1\n";
    let problems = Scenario::parse("typo.toml", text).unwrap_err();
    insta::assert_json_snapshot!(problems);
}

#[test]
fn colours_change_nothing_but_colours() {
    let problems = Scenario::parse("x.toml", "summary = 3\n").unwrap_err();
    let coloured = problems.render(true);
    assert!(coloured.contains("\x1b[1;31merror\x1b[0m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, problems.render(false));
}

#[test]
fn columns_count_characters_and_not_bytes() {
    let text = "description = \"äöü\" summary = 3\n";
    let problems = Scenario::parse("x.toml", text).unwrap_err();
    let place = problems.iter().find_map(|problem| problem.place.as_ref()).unwrap();
    assert_eq!(&text[place.span.clone()], place.offending);
    let before: String = text.chars().take(place.column - 1).collect();
    assert_eq!(before.len(), place.span.start);
}
