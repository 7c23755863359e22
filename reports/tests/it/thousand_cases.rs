//! Documents of a large run stay usable. How long they take is measured by `cargo bench`.

use ringbreaker_reports::{render, report::RunReport};

use crate::synthetic::thousand_cases;

#[test]
fn the_page_of_a_thousand_cases_is_whole_and_of_bearable_size() {
    let report = RunReport::from(thousand_cases());
    assert_eq!(report.cases.len(), 1_000);
    let page = render::html::render(&report).unwrap();
    assert_eq!(page.matches("<details class=\"case\"").count(), 1_000);
    assert_eq!(page.matches("<svg class=\"timeline\"").count(), 1_000);
    assert_eq!(page.matches("<svg class=\"timeline curve\"").count(), 1_000);
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
}

#[test]
fn markdown_of_a_thousand_cases_fits_a_github_comment() {
    let text = render::markdown::render(&RunReport::from(thousand_cases()));
    assert!(text.len() < 65_536, "{} bytes", text.len());
}
