//! Words and short texts that all documents share, so that they say the same thing.

use ringbreaker_scenarios::{
    event::ExitStatus,
    units::Nanos,
    words::{Outcome, Verdict},
};

use crate::{
    outcome::{Moment, RankReport},
    report::{Cell, RunReport},
};

/// How an outcome is to be taken, for colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// The work was finished.
    Fine,
    /// The job failed, as a job should.
    Handled,
    /// Worse than it should be.
    Uneasy,
    /// A job that hangs, crashes or lies.
    Bad,
    /// Says nothing about the job.
    Void,
}

impl Tone {
    pub(super) fn of(outcome: Outcome) -> Tone {
        match outcome {
            Outcome::Completed | Outcome::Recovered => Tone::Fine,
            Outcome::FailedClean => Tone::Handled,
            Outcome::Degraded | Outcome::FailedPartial => Tone::Uneasy,
            Outcome::AbortHung | Outcome::Hung | Outcome::Crashed | Outcome::WrongData => Tone::Bad,
            Outcome::NotExposed | Outcome::NotRunnable => Tone::Void,
        }
    }

    /// The tone of the worst outcome of a cell.
    pub(super) fn of_cell(cell: &Cell) -> Tone {
        let tones = cell.outcomes.iter().map(|(outcome, _)| Tone::of(*outcome));
        tones.max_by_key(|tone| tone.gravity()).unwrap_or(Tone::Void)
    }

    fn gravity(self) -> u8 {
        match self {
            Tone::Void => 0,
            Tone::Fine => 1,
            Tone::Handled => 2,
            Tone::Uneasy => 3,
            Tone::Bad => 4,
        }
    }
}

/// One sentence an outcome, for legends.
pub(super) fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "every operation right, no visible effect",
        Outcome::Degraded => "every operation right, but slower",
        Outcome::Recovered => "a failure was noticed, the work was finished all the same",
        Outcome::FailedClean => "every surviving rank was told and ended by itself",
        Outcome::FailedPartial => "some ranks ended by themselves, others had to be killed",
        Outcome::AbortHung => "noticed, but abort or teardown never ended",
        Outcome::Hung => "ranks waited until the cap: nobody noticed, or nothing acted on it",
        Outcome::Crashed => "a rank that was no target died of a signal or panic",
        Outcome::WrongData => "an operation reported success with wrong contents",
        Outcome::NotExposed => "no witness saw the fault take effect",
        Outcome::NotRunnable => "steady state never reached, or not possible here",
    }
}

/// A verdict as one character, beside its word.
pub(super) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✓",
        Verdict::Unknown => "?",
        Verdict::Fail => "✗",
    }
}

/// `hung`, `failed-clean 3x`, or `failed-clean 2x, hung 1x`; `not run` while nothing was attempted.
pub(super) fn outcomes(cell: &Cell) -> String {
    match cell.outcomes.as_slice() {
        [] => "not run".to_owned(),
        [(outcome, 1)] => outcome.to_string(),
        many => many
            .iter()
            .map(|(outcome, count)| format!("{outcome} {count}x"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// From effect to first detection: `4ms`, `4ms (p90 9ms, max 9ms)`, `unnoticed`; empty where there
/// was nothing to notice.
pub(super) fn detection(cell: &Cell) -> String {
    let unnoticed = cell.unnoticed();
    let lost = match cell.detection {
        Some(_) if unnoticed > 0 => format!(", {unnoticed}x unnoticed"),
        None if unnoticed > 0 && went_wrong(cell) => "unnoticed".to_owned(),
        _ => String::new(),
    };
    match cell.detection {
        Some(spread) if spread.count > 1 => {
            let (p90, max) = (spread.p90, spread.max);
            format!("{} (p90 {p90}, max {max}){lost}", spread.median)
        }
        Some(spread) => format!("{}{lost}", spread.median),
        None => lost,
    }
}

/// Whether the job did not simply finish, so that silence is worth a word.
fn went_wrong(cell: &Cell) -> bool {
    !matches!(cell.outcome(), None | Some(Outcome::Completed | Outcome::Degraded))
}

/// `exit 3`, `signal 9 (killed by the harness)`, `unknown`.
pub(super) fn end_of(rank: &RankReport) -> String {
    let how = match rank.status {
        Some(ExitStatus::Code(code)) => format!("exit {code}"),
        Some(ExitStatus::Signal(signal)) => signal_name(signal),
        None => return "unknown".to_owned(),
    };
    if rank.by_harness { format!("{how}, by the harness") } else { how }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        6 => "SIGABRT",
        7 => "SIGBUS",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// A time since the effect; `before` for what happened before it, empty for what never happened.
pub(super) fn since(moment: Option<Moment>, effect: Option<Nanos>) -> String {
    match moment {
        Some(Moment { since_effect: Some(time), .. }) => time.to_string(),
        Some(_) if effect.is_some() => "before".to_owned(),
        _ => String::new(),
    }
}

/// `12 cases: 9 pass, 2 unknown, 1 fail`, and how many were never run.
pub(super) fn totals(report: &RunReport) -> String {
    let [(_, pass), (_, unknown), (_, fail)] = report.counts();
    let cases = report.cases.len();
    let plural = if cases == 1 { "" } else { "s" };
    let pending = match report.pending.len() {
        0 => String::new(),
        pending => format!(", {pending} not run"),
    };
    format!("{cases} case{plural}: {pass} pass, {unknown} unknown, {fail} fail{pending}")
}

/// `2026-12-01 05:15:30 UTC`; the text as it is where it is no RFC 3339.
pub(super) fn clock(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => text.to_owned(),
    }
}

/// From start to end of the run, where both are known and well-formed.
pub(super) fn duration(report: &RunReport) -> Option<Nanos> {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let ended = parse(report.header.ended.as_deref()?)?;
    let time = ended.duration_since(parse(&report.header.started)?);
    u64::try_from(time.as_nanos()).ok().map(Nanos)
}
