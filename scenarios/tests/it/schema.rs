//! The published schema is that of the code, takes what is shipped and refuses what is wrong.

use std::{env, fs, path::Path};

use jsonschema::Validator;
use ringbreaker_scenarios::{library, schema::scenario_schema};
use serde_json::Value;

fn validator() -> Validator {
    jsonschema::validator_for(&scenario_schema()).unwrap()
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

/// `UPDATE=1 cargo test -p ringbreaker-scenarios` writes the file anew.
#[test]
fn the_published_schema_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenario.schema.json");
    let wanted = scenario_schema();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{wanted:#}\n")).unwrap();
    }
    // Compared as values: the order of keys depends on features that other crates switch on.
    let found: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(found == wanted, "scenario.schema.json is stale: run this test with UPDATE=1");
}

#[test]
fn every_shipped_scenario_satisfies_the_schema() {
    let validator = validator();
    for shipped in library::all() {
        let errors: Vec<String> = validator
            .iter_errors(&as_json(shipped.text))
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", shipped.name);
    }
}

#[test]
fn what_is_wrong_in_itself_is_refused_by_the_schema() {
    let validator = validator();
    let right = include_str!("../../library/quick.toml");
    assert!(validator.is_valid(&as_json(right)));
    for (from, to) in [
        ("iterations = 60", "iteration = 60"),
        ("iterations = 60", "iterations = \"60\""),
        ("\"256 KiB\"", "\"256 K\""),
        ("\"10ms\"", "\"10\""),
        ("\"all_reduce\"", "\"allreduce\""),
        ("error_handling = [", "error_handing = ["),
        ("\"teardown\", \"none\"", "\"teardown\", \"nothing\""),
        ("target = { rank = 1 }\n", ""),
        ("target = { rank = 1 }", "target = \"some\""),
        ("target = { rank = 1 }", "target = { rank = 1, node = 0 }"),
        ("inject.stop = {}", "inject.pause = {}"),
        ("inject.stop = {}", "inject.stop = { hard = true }"),
        ("{ leave = \"0 B\" }", "{}"),
        ("outcome = \"hung\"", "outcome = \"hanging\""),
        ("summary =", "sumary ="),
    ] {
        assert!(right.contains(from), "{from}");
        let wrong = right.replacen(from, to, 1);
        assert!(!validator.is_valid(&as_json(&wrong)), "{from} -> {to} is taken");
    }
}
