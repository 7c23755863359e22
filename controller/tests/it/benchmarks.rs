//! Benchmarks through the real executable, as small as they get. How fast anything is matters to
//! nobody here, only that figures come from what ran.

use crate::program::Place;

#[test]
fn the_sweep_prints_the_columns_of_nccl_tests_for_each_operation() {
    let place = Place::new();
    let small = [
        "bench",
        "--backend",
        "host",
        "--iterations",
        "2",
        "--warmup",
        "1",
        "--from",
        "1 KiB",
        "--to",
        "4 KiB",
    ];
    let all = [&small[..], &["--collective", "all", "--format", "json"]].concat();
    let measured = place.run(&all).must_end_with(0).json();
    let tables = measured.as_array().unwrap();
    assert_eq!(tables.len(), 7, "{measured:#}");
    for table in tables {
        let rows = table["rows"].as_array().unwrap();
        let sizes: Vec<u64> = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
        assert_eq!(sizes, [1024, 4096], "{table:#}");
        assert!(rows.iter().all(|row| row["time_ns"].as_u64() > Some(0) && row["wrong"] == 0));
    }

    let text = place.run(&small).must_end_with(0).stdout;
    let columns = "# size count type redop root time algbw busbw #wrong";
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.lines().any(|line| words(line) == columns), "{text}");
    assert!(text.lines().any(|line| words(line).starts_with("4096 1024 f32 sum -1 ")), "{text}");
    assert!(text.contains("host stand-in") && text.contains("average bus bandwidth"), "{text}");
}

#[test]
fn a_size_that_is_none_is_refused() {
    let ended = Place::new().run(&["bench", "--from", "2 MiB", "--to", "1 MiB"]).must_end_with(2);
    assert!(ended.stderr.contains("--from"), "{}", ended.stderr);
}

#[test]
fn the_cost_of_a_case_comes_from_a_real_run_that_leaves_nothing() {
    let place = Place::new();
    let ended = place.run(&["bench", "harness", "--cases", "3", "--format", "json"]);
    let measured = ended.must_end_with(0).json();
    assert_eq!(measured["cases"], 2, "the first of three has no case before it: {measured:#}");
    assert!(measured["cost"]["median_ns"].as_u64() > Some(0), "{measured:#}");
    place.must_become_clean();
}

#[test]
fn a_thousand_cases_are_planned() {
    let arguments = ["bench", "plan", "--rounds", "1", "--format", "json"];
    let measured = Place::new().run(&arguments).must_end_with(0).json();
    assert_eq!(measured["cases"], 1_000);
}
