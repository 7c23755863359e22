//! The end of a run: documents, the summary line, the exit code.

use std::path::Path;

use ringbreaker_reports::{recording, report::RunReport};
use ringbreaker_scenarios::{units::Nanos, words::Verdict};

use super::{Conduct, config::Manner, estimate, ledger::Ledger};
use crate::{
    cli::{
        args::{Document, Listing},
        documents::{self, tell},
    },
    error::{Error, Expected},
    exit,
};

/// The name of the page in a run's directory.
pub(crate) const PAGE: &str = "report.html";

/// Writes and prints what came of a run.
pub(crate) async fn conclude(
    ledger: &Ledger,
    manner: &Manner,
    directory: &Path,
    conduct: Conduct,
    elapsed: Nanos,
) -> Result<u8, Error> {
    let Conduct { id, not_healed, interrupted, stopped } = conduct;
    let pending = ledger.pending(&id).await?.len();
    let cut = match (pending, &stopped, interrupted) {
        (0, ..) | (_, None, false) => Cut::No,
        (_, Some(_), _) => Cut::Stopped,
        (_, None, true) => Cut::Interrupted,
    };
    if cut == Cut::No {
        ledger.finish(&id, jiff::Timestamp::now().to_string()).await?;
    }
    let report = RunReport::from(ledger.load(&id).await?);
    if let Some(dir) = &manner.record {
        record(dir, &report)?;
    }
    let page = directory.join(PAGE);
    write(&page, &documents::render(&report, Document::Html, false)?)?;
    match manner.format {
        Listing::Json => documents::print(&documents::render(&report, Document::Json, false)?),
        Listing::Text if manner.quiet => {}
        Listing::Text => documents::print(&documents::for_terminal(&report)),
    }
    for line in &not_healed {
        tell(&format!("ringbreaker: not healed: {line}"));
    }
    // The matrix ends with the counts already.
    match manner.format {
        Listing::Text if !manner.quiet => tell(&format!("page: {}", page.display())),
        Listing::Text | Listing::Json => tell(&summary(&report, elapsed, &page)),
    }
    let how = match (cut, &stopped) {
        (Cut::No, _) => None,
        (Cut::Stopped, Some(stopped)) => Some(stopped.as_str()),
        (Cut::Stopped | Cut::Interrupted, _) => Some("interrupted"),
    };
    if let Some(how) = how {
        let resume = resume(&id, manner);
        tell(&format!(
            "{how}; everything was healed first; `{resume}` finishes the {pending} pending cases"
        ));
    }
    Ok(exit_code(report.verdict, cut, !not_healed.is_empty()))
}

/// Why cases are left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// None are.
    No,
    /// The user did not want to wait.
    Interrupted,
    /// The kill switch.
    Stopped,
}

fn record(dir: &Path, report: &RunReport) -> Result<(), Error> {
    let files = recording::write(dir, report)
        .map_err(|source| Expected::Recording { source: Box::new(source) })?;
    tell(&format!("recordings: {} files in {}", files.len(), dir.display()));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|source| Expected::Output { path: path.to_owned(), source }.into())
}

/// The command that finishes a run.
pub(crate) fn resume(id: &str, manner: &Manner) -> String {
    let here = std::path::absolute("ringbreaker-runs").is_ok_and(|usual| usual == manner.dir);
    let dir = if here { String::new() } else { format!(" --dir {}", manner.dir.display()) };
    format!("ringbreaker run --resume {id}{dir}")
}

fn summary(report: &RunReport, elapsed: Nanos, page: &Path) -> String {
    let counts: Vec<String> = report
        .counts()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    let pending = match report.pending.len() {
        0 => String::new(),
        n => format!(", {n} pending"),
    };
    let time = estimate::words(elapsed);
    let counts = if counts.is_empty() { "nothing done".to_owned() } else { counts.join(", ") };
    format!("{}: {counts}{pending} in {time}; {}", report.verdict, page.display())
}

/// What a script learns: the worst first.
pub(crate) fn exit_code(verdict: Verdict, cut: Cut, not_healed: bool) -> u8 {
    match (not_healed, cut, verdict) {
        (true, _, _) => exit::NOT_HEALED,
        (_, Cut::Stopped, _) => exit::STOPPED,
        (_, Cut::Interrupted, _) => exit::INTERRUPTED,
        (_, _, Verdict::Fail) => exit::FAIL,
        (_, _, Verdict::Unknown) => exit::UNKNOWN,
        (_, _, Verdict::Pass) => exit::PASS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_thing_that_happened_decides_the_exit_code() {
        for (verdict, cut, not_healed, want) in [
            (Verdict::Pass, Cut::No, false, 0),
            (Verdict::Unknown, Cut::No, false, 11),
            (Verdict::Fail, Cut::No, false, 10),
            (Verdict::Fail, Cut::Interrupted, false, 130),
            (Verdict::Fail, Cut::Stopped, false, 14),
            (Verdict::Pass, Cut::Stopped, true, 13),
        ] {
            assert_eq!(exit_code(verdict, cut, not_healed), want);
        }
    }
}
