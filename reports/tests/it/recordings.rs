//! Recordings: written, read, compared, and held to the list of known differences.

use ringbreaker_reports::{
    recording::{
        Aspect, compare,
        known::{Known, Problem},
        read, write,
    },
    report::RunReport,
};
use ringbreaker_scenarios::{event::EndReason, words::Detector};
use tempfile::TempDir;

use crate::story::{Story, kill_noticed, run, three_cases};

fn kill(mode: &str) -> Story {
    kill_noticed().swept("error_handling", mode)
}

fn recorded(stories: Vec<Story>) -> Vec<ringbreaker_reports::recording::Recording> {
    let dir = TempDir::new().expect("a test directory that can be used");
    let cases = stories.into_iter().map(|s| s.ended(1650, EndReason::RanksGone)).collect();
    write(dir.path(), &RunReport::from(run(cases))).expect("a test directory that can be used");
    read(dir.path()).expect("a test directory that can be used")
}

#[test]
fn a_recording_holds_what_happened_and_on_what() {
    let dir = TempDir::new().unwrap();
    let files = write(dir.path(), &RunReport::from(three_cases())).unwrap();
    let names: Vec<&str> =
        files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    // The case that could not be run says nothing about anybody's NCCL.
    assert_eq!(
        names,
        ["quick--kill--error_handling=teardown.json", "quick--stop--error_handling=none.json"]
    );
    insta::assert_snapshot!(std::fs::read_to_string(&files[0]).unwrap());
    assert_eq!(read(dir.path()).unwrap().len(), 2);
}

#[test]
fn repetitions_are_kept_in_one_file() {
    let recordings = recorded(vec![kill("teardown"), kill("teardown").repetition(2)]);
    assert_eq!(recordings.len(), 1);
    assert_eq!(recordings[0].repetitions.len(), 2);
}

#[test]
fn cells_with_names_that_files_cannot_have_stay_apart() {
    let of = |value: &str| kill_noticed().swept("NCCL_SOCKET_IFNAME", value);
    let long = "x".repeat(300);
    let recordings =
        recorded(vec![of("../a/b"), of("-..-a-b"), of(&long), of(&format!("{long}y")), of("c d")]);
    assert_eq!(recordings.len(), 5);
}

#[test]
fn a_stand_in_that_does_the_same_does_not_differ() {
    let real = recorded(vec![kill("teardown"), kill("none")]);
    assert_eq!(compare(&real, &real), []);
    let known = Known::default();
    assert_eq!(known.check(&compare(&real, &real)), []);
}

#[test]
fn differences_are_named_by_cell_and_aspect_and_must_be_listed() {
    let real = recorded(vec![kill("teardown"), kill("none")]);
    let late = Story::of("kill")
        .kill(1)
        .swept("error_handling", "teardown")
        .steady()
        .strikes(500, "gone")
        .signal(500, 1, 9)
        .detected(2_500, 0, Detector::RankWatchdog, None)
        .exit(2_600, 0, 3)
        .exit(2_600, 2, 3)
        .exit(2_600, 3, 3);
    let differences = compare(&real, &recorded(vec![late]));
    let aspects: Vec<(Aspect, &str)> =
        differences.iter().map(|d| (d.aspect, d.row["error_handling"].as_str())).collect();
    assert_eq!(
        aspects,
        [
            (Aspect::Missing, "none"),
            (Aspect::Detector, "teardown"),
            (Aspect::ErrorClass, "teardown")
        ]
    );
    assert_eq!(
        differences[1].to_string(),
        "quick / kill / error_handling=teardown: detector rank-watchdog, real NCCL async-error"
    );

    let known = Known::parse(
        r#"
        [[difference]]
        scenario = "quick"
        column = "kill"
        aspect = "missing"
        host = []
        reason = "mode none is not recorded here"

        [[difference]]
        scenario = "quick"
        column = "kill"
        row = { error_handling = "teardown" }
        aspect = "detector"
        host = ["rank-watchdog"]
        reason = "no socket error is raised"

        [[difference]]
        scenario = "quick"
        column = "stop"
        aspect = "outcome"
        host = ["hung"]
        reason = "differs no more"
        "#,
    )
    .unwrap();
    let problems = known.check(&differences);
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(matches!(&problems[0], Problem::Unlisted(d) if d.aspect == Aspect::ErrorClass));
    assert!(matches!(&problems[1], Problem::Stale(entry) if entry.column == "stop"));
}

#[test]
fn an_entry_without_a_reason_is_an_error() {
    let text =
        "[[difference]]\nscenario = 'q'\ncolumn = 'c'\naspect = 'outcome'\nhost = []\nreason = ' '";
    let problems = Known::parse(text).unwrap().check(&[]);
    assert!(problems.iter().any(|p| matches!(p, Problem::Unexplained(_))), "{problems:?}");
    assert!(Known::parse("[[difference]]\nscenario = 'q'").is_err());
}

#[test]
fn what_is_no_recording_or_a_newer_one_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("a.json"), "{\"format\": 99}").unwrap();
    let newer = read(dir.path()).unwrap_err().to_string();
    assert!(newer.contains("a.json") && newer.contains("format 99"), "{newer}");
    std::fs::write(dir.path().join("a.json"), "{\"format\": 1}").unwrap();
    let malformed = read(dir.path()).unwrap_err().to_string();
    assert!(malformed.contains("is no recording"), "{malformed}");
}

#[test]
fn a_run_with_nothing_to_record_leaves_a_directory_that_can_be_read() {
    let dir = TempDir::new().unwrap();
    let new = dir.path().join("host");
    assert_eq!(
        write(&new, &RunReport::from(run(vec![]))).unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
    assert_eq!(read(&new).unwrap(), []);
}
