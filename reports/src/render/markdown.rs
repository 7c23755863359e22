//! The report for issues and pull requests, in GitHub's Markdown.

use std::fmt::{Result as FmtResult, Write};

use ringbreaker_scenarios::words::Verdict;

use super::phrases;
use crate::report::{CaseResult, Matrix, RunReport};

/// Cases that did not pass are listed up to this many: GitHub refuses comments over 65,536
/// characters.
const CASES_LISTED: usize = 50;

/// Writes the report.
pub fn render(report: &RunReport) -> String {
    let mut out = String::new();
    write_report(&mut out, report).expect("invariant: writing to a String cannot fail");
    out
}

fn write_report(out: &mut String, report: &RunReport) -> FmtResult {
    let header = &report.header;
    writeln!(out, "## ringbreaker: {}: {}\n", inline(&header.scenario), report.verdict)?;
    writeln!(out, "{}\n", inline(&header.summary))?;
    if let Some(notice) = report.notice() {
        writeln!(out, "> **{notice}**\n")?;
    }
    let took = phrases::duration(report).map(|t| format!(" in {t}")).unwrap_or_default();
    writeln!(out, "{}{took}\n", phrases::totals(report))?;
    write_matrix(out, &report.matrix)?;
    if !report.findings.is_empty() {
        writeln!(out, "### Findings\n")?;
        for finding in &report.findings {
            writeln!(out, "- {}", inline(&finding.sentence))?;
        }
        out.push('\n');
    }
    write_objections(out, report)?;
    let commit = header.commit.as_deref().map(|c| format!(" ({c})")).unwrap_or_default();
    writeln!(
        out,
        "<sub>run `{}`, backend `{}`, seed {}, ringbreaker {}{commit}</sub>",
        header.id, header.backend, header.seed, header.version
    )
}

fn write_matrix(out: &mut String, matrix: &Matrix) -> FmtResult {
    if matrix.rows.is_empty() {
        return Ok(());
    }
    let columns: Vec<String> = matrix.columns.iter().map(|column| inline(column)).collect();
    writeln!(out, "| settings | {} |", columns.join(" | "))?;
    writeln!(out, "| --- |{}", " --- |".repeat(columns.len()))?;
    for row in &matrix.rows {
        let cells: Vec<String> = row
            .cells
            .iter()
            .map(|cell| match cell {
                Some(cell) => {
                    let mark = cell.verdict.map_or("", phrases::mark);
                    let text = format!("{} {mark}", phrases::outcomes(cell));
                    match phrases::detection(cell).as_str() {
                        "" => text,
                        detection => format!("{text}<br>{detection}"),
                    }
                }
                None => String::new(),
            })
            .collect();
        writeln!(out, "| {} | {} |", inline(&row.label), cells.join(" | "))?;
    }
    out.push('\n');
    Ok(())
}

fn write_objections(out: &mut String, report: &RunReport) -> FmtResult {
    let objected: Vec<&CaseResult> =
        report.cases.iter().filter(|c| c.verdict.verdict != Verdict::Pass).collect();
    if objected.is_empty() {
        return Ok(());
    }
    let plural = if objected.len() == 1 { "" } else { "s" };
    writeln!(out, "<details><summary>{} case{plural} did not pass</summary>\n", objected.len())?;
    for case in objected.iter().take(CASES_LISTED) {
        let plan = &case.history.plan;
        let name = format!("{} {}", plan.column, plan.row_label());
        writeln!(
            out,
            "**case {}** {}: {}\n",
            plan.index,
            inline(name.trim()),
            case.verdict.verdict
        )?;
        for reason in case.verdict.objections() {
            writeln!(out, "- {}", inline(&reason.sentence))?;
        }
        writeln!(out, "\n```sh\n{}\n```\n", case.reproduce)?;
    }
    if objected.len() > CASES_LISTED {
        writeln!(out, "and {} more\n", objected.len() - CASES_LISTED)?;
    }
    writeln!(out, "</details>\n")
}

/// Text within a line or table cell: nothing in it is taken for markup.
fn inline(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c => escaped.push(c),
        }
    }
    escaped
}
