//! JUnit XML, for continuous integration: one suite a fault, one test a case.
//!
//! `fail` is a failure; `unknown` an error, since the test could not tell; a case that is not
//! runnable here, or was never run, is skipped with the reason. Nothing skipped counts as passed.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use ringbreaker_scenarios::{
    case::CasePlan,
    words::{Outcome, Verdict},
};

use super::RenderError;
use crate::report::{CaseResult, RunReport, UNSWEPT};

/// Writes the document.
///
/// # Errors
///
/// When the XML writer refuses.
pub fn render(report: &RunReport) -> Result<String, RenderError> {
    let header = &report.header;
    let mut document = Report::new(format!("ringbreaker {}", header.scenario));
    for column in &report.matrix.columns {
        let mut suite = TestSuite::new(format!("{}: {column}", header.scenario));
        suite.add_property(Property::new("run", header.id.as_str()));
        suite.add_property(Property::new("started", header.started.as_str()));
        suite.add_property(Property::new("seed", header.seed.to_string()));
        suite.add_property(Property::new("backend", header.backend.word()));
        if let Some(notice) = report.notice() {
            suite.add_property(Property::new("notice", notice));
        }
        let cases = report.cases.iter().filter(|case| case.history.plan.column == *column);
        suite.add_test_cases(cases.map(|case| attempted(case, &header.scenario)));
        let pending = report.pending.iter().filter(|plan| plan.column == *column);
        suite.add_test_cases(pending.map(|plan| never_run(plan, &header.scenario)));
        document.add_test_suite(suite);
    }
    document
        .to_string()
        .map_err(|error| RenderError { document: "JUnit", reason: error.to_string() })
}

fn attempted(case: &CaseResult, scenario: &str) -> TestCase {
    let objections: Vec<&str> = case.verdict.objections().map(|r| r.sentence.as_str()).collect();
    let objections = objections.join("\n");
    let status = match (case.verdict.verdict, case.report.outcome) {
        (Verdict::Pass, _) => TestCaseStatus::success(),
        (Verdict::Fail, outcome) => {
            non_success(NonSuccessKind::Failure, outcome, &case.report.why, &objections)
        }
        (Verdict::Unknown, Outcome::NotRunnable) => skipped(&case.report.why),
        (Verdict::Unknown, outcome) => {
            non_success(NonSuccessKind::Error, outcome, &case.report.why, &objections)
        }
    };
    let plan = &case.history.plan;
    let mut test = test(plan, scenario, status);
    let job = &case.report.job;
    if let (Some(began), Some(ended)) = (job.began, job.ended) {
        test.set_time(Duration::from(ended.since(began)));
    }
    test.set_system_out(format!(
        "case {}\noutcome {}: {}\nreproduce: {}",
        plan.index, case.report.outcome, case.report.why, case.reproduce
    ));
    test
}

fn never_run(plan: &CasePlan, scenario: &str) -> TestCase {
    test(plan, scenario, skipped("planned and never run; `ringbreaker run --resume` finishes it"))
}

fn test(plan: &CasePlan, scenario: &str, status: TestCaseStatus) -> TestCase {
    let row = if plan.row.is_empty() { UNSWEPT.to_owned() } else { plan.row_label() };
    let mut test = TestCase::new(format!("{row} #{}", plan.repetition), status);
    test.set_classname(format!("{scenario}.{}", plan.column));
    test
}

fn non_success(kind: NonSuccessKind, outcome: Outcome, why: &str, text: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(outcome.word()).set_message(why).set_description(text);
    status
}

fn skipped(reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(reason);
    status
}
