//! How long it takes to judge 1,000 cases and to write each document about them:
//! `cargo bench -p ringbreaker-reports`. The goal for the HTML page is 2 s.

#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/story.rs"]
mod story;
#[path = "../tests/it/synthetic.rs"]
mod synthetic;

use std::time::{Duration, Instant};

use ringbreaker_reports::{render, report::RunReport, store::Store};

/// One measured step: its name, how long it took, bytes written.
struct Timing {
    name: &'static str,
    took: Duration,
    bytes: usize,
}

fn timed<T>(
    name: &'static str,
    size: impl Fn(&T) -> usize,
    work: impl FnOnce() -> T,
) -> (T, Timing) {
    let begin = Instant::now();
    let made = work();
    let timing = Timing { name, took: begin.elapsed(), bytes: size(&made) };
    (made, timing)
}

fn thousand_cases() -> Vec<Timing> {
    let history = synthetic::thousand_cases();
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let plans: Vec<_> = history.cases.iter().map(|case| case.plan.clone()).collect();
    let ((), stored) = timed(
        "store, one transaction a case",
        |()| 0,
        || {
            let mut store = Store::open(dir.path()).expect("a store");
            store.begin_run(&history.header, &plans).expect("a run");
            for case in &history.cases {
                store.append_case(&history.header.id, case).expect("a case");
            }
        },
    );
    let (history, loaded) = timed(
        "load",
        |_| 0,
        || Store::open(dir.path()).and_then(|s| s.load(&history.header.id)).expect("the run"),
    );
    let (report, judged) = timed("judge", |_| 0, || RunReport::from(history));
    let html = timed("html", String::len, || render::html::render(&report).expect("a page")).1;
    let json = timed("json", String::len, || {
        render::json::render(&report, render::json::Detail::Report).expect("json")
    })
    .1;
    let junit = timed("junit", String::len, || render::junit::render(&report).expect("junit")).1;
    let markdown = timed("markdown", String::len, || render::markdown::render(&report)).1;
    let terminal =
        timed("terminal", String::len, || render::terminal::render(&report, true, 160)).1;
    vec![stored, loaded, judged, html, json, junit, markdown, terminal]
}

fn main() {
    println!("{:<32}{:>10}{:>12}", "1,000 cases", "ms", "KiB");
    for Timing { name, took, bytes } in thousand_cases() {
        println!("{name:<32}{:>10.1}{:>12}", took.as_secs_f64() * 1e3, bytes / 1024);
    }
}
