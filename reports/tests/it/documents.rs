//! Every document, as snapshots of three cases: a noticed kill, an unnoticed stop, a case that
//! cannot be run.

use ringbreaker_reports::{
    render::{self, json::Detail},
    report::RunReport,
};

use crate::story::{run, three_cases};

fn report() -> RunReport {
    RunReport::from(three_cases())
}

#[test]
fn the_terminal_shows_matrix_findings_and_what_did_not_pass() {
    insta::assert_snapshot!(render::terminal::render(&report(), false, 120));
}

#[test]
fn a_narrow_terminal_gets_one_table_after_the_other() {
    let text = render::terminal::render(&report(), false, 60);
    let widest = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("ringbreaker run"))
        .map(|line| line.chars().count())
        .max();
    assert!(widest <= Some(80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn colours_come_only_when_asked_for_and_change_no_word() {
    let plain = render::terminal::render(&report(), false, 120);
    let coloured = render::terminal::render(&report(), true, 120);
    assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'));
    assert_eq!(without_escapes(&coloured), plain);
}

fn without_escapes(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(|c| *c == 'm');
        } else {
            out.push(c);
        }
    }
    // A coloured cell is padded inside its colour.
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn junit_tells_failed_from_unknown_from_skipped() {
    let text = render::junit::render(&report()).unwrap();
    assert!(text.contains("failures=\"1\"") && text.contains("<skipped"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_fits_a_pull_request() {
    insta::assert_snapshot!(render::markdown::render(&report()));
}

#[test]
fn json_has_the_documented_shape() {
    let text = render::json::render(&report(), Detail::Report).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["cases", "counts", "findings", "format", "matrix", "notice", "pending", "run", "verdict"]
    );
    assert_eq!(value["format"], 1);
    assert_eq!(value["cases"][0]["report"]["job"]["detected"]["since_effect"], 4_000_000);
    assert_eq!(value["cases"][1]["outcome"], "hung");
    insta::assert_snapshot!(text);
}

#[test]
fn the_history_adds_plans_and_events_and_changes_nothing_else() {
    let parse = |detail| -> serde_json::Value {
        serde_json::from_str(&render::json::render(&report(), detail).unwrap()).unwrap()
    };
    let mut history = parse(Detail::History);
    for case in history["cases"].as_array_mut().unwrap() {
        let case = case.as_object_mut().unwrap();
        assert!(case.remove("plan").unwrap()["workload"].is_object());
        assert!(!case.remove("events").unwrap().as_array().unwrap().is_empty());
    }
    assert_eq!(history, parse(Detail::Report));
}

#[test]
fn the_page_is_one_file_that_asks_nothing_of_the_network() {
    let page = render::html::render(&report()).unwrap();
    for forbidden in ["http://", "https://", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(forbidden), "{forbidden} is in the page");
    }
    assert!(page.contains("host stand-in: rehearses the harness, says nothing about your NCCL"));
    assert_eq!(page.matches("<details class=\"case\"").count(), 3);
    let timelines = page.matches("<svg class=\"timeline\"").count();
    assert_eq!(timelines, 2, "the case that never began has no timeline");
    let curves = page.matches("<svg class=\"timeline curve\"").count();
    assert_eq!(curves, 1, "two operations are no curve");
    insta::assert_snapshot!(page);
}

#[test]
fn nothing_from_a_log_or_a_file_becomes_markup() {
    let evil = "<script>alert(1)</script> | `x` & \"y\"";
    let mut history = three_cases();
    history.header.summary = evil.into();
    history.header.scenario_text = evil.into();
    let mut case = history.cases.remove(0);
    case.plan.column = evil.into();
    case.plan.faults[0].label = evil.into();
    case.events.push(ringbreaker_scenarios::event::Event {
        at: crate::story::at(510),
        rank: Some(0),
        what: ringbreaker_scenarios::event::What::Log { line: evil.into() },
    });
    history.cases = run(vec![case]).cases;
    let report = RunReport::from(history);
    let page = render::html::render(&report).unwrap();
    assert!(!page.contains("<script>alert"), "markup in the page");
    assert!(!render::markdown::render(&report).contains("<script>"), "markup in Markdown");
    assert!(!render::junit::render(&report).unwrap().contains("<script>"), "markup in JUnit");
}

#[test]
fn a_run_without_cases_has_every_document() {
    let report = RunReport::from(run(Vec::new()));
    assert!(render::terminal::render(&report, true, 80).contains("UNKNOWN"));
    assert!(render::html::render(&report).unwrap().contains("0 cases"));
    assert!(
        render::junit::render(&report).is_ok()
            && render::json::render(&report, Detail::History).is_ok()
    );
    assert!(render::markdown::render(&report).contains("unknown"));
}
