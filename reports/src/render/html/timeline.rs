//! A case as a picture: one lane a rank, time to the right.
//!
//! Inline SVG without script. Bars are operations (pale: never
//! finished), the shaded window is the fault, a diamond is the
//! moment of noticing, the hollow bar is abort; the lane ends where the process did. What a black
//! box no longer holds is a thin line.

use std::fmt::{Result as FmtResult, Write};

use ringbreaker_scenarios::{
    case::Rank,
    event::{OpRecord, What},
    fault::ActsOn,
    units::Nanos,
};

use crate::{outcome::RankReport, render::phrases, report::CaseResult};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const LANE: f64 = 40.0;
const BAR: f64 = 12.0;
const FOOT: f64 = 30.0;
/// Operations nearer to each other than this are drawn as one bar.
const MERGE: f64 = 0.6;
/// About how many marks the time axis has.
const TICKS: f64 = 8.0;

/// Draws the timeline; empty when the history holds no span of time.
pub(super) fn draw(case: &CaseResult) -> String {
    let Some(scale) = Scale::of(case) else { return String::new() };
    let mut out = String::new();
    write_all(&mut out, case, &scale).expect("invariant: writing to a String cannot fail");
    out
}

/// From time to horizontal position.
struct Scale {
    start: Nanos,
    end: Nanos,
    /// What the axis counts from.
    zero: Nanos,
    zero_is_effect: bool,
}

impl Scale {
    fn of(case: &CaseResult) -> Option<Scale> {
        let job = &case.report.job;
        let times = || case.history.events.iter().map(|event| event.at);
        let start = job.began.or_else(|| times().min())?;
        let last = [job.gone.map(|moment| moment.at), job.effect].into_iter().flatten().max();
        let end = last.or_else(|| times().max())?;
        (end > start).then(|| Scale {
            start,
            end,
            zero: job.effect.unwrap_or(start),
            zero_is_effect: job.effect.is_some(),
        })
    }

    fn x(&self, at: Nanos) -> f64 {
        let share = at.since(self.start).0 as f64 / self.end.since(self.start).0 as f64;
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn span(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }
}

fn write_all(out: &mut String, case: &CaseResult, scale: &Scale) -> FmtResult {
    let ranks = &case.report.ranks;
    let height = TOP + LANE * ranks.len() as f64 + FOOT;
    write!(
        out,
        r#"<svg class="timeline" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="timeline of case {}">"#,
        case.history.plan.index
    )?;
    axis(out, scale, height)?;
    windows(out, case, scale, height)?;
    for (lane, rank) in ranks.iter().enumerate() {
        let y = TOP + LANE * lane as f64;
        ops(out, case, rank, scale, y)?;
        marks(out, case, rank, scale, y)?;
    }
    out.write_str("</svg>")
}

/// Time marks at round distances from zero.
fn axis(out: &mut String, scale: &Scale, height: f64) -> FmtResult {
    let step = round_step(scale.span() / TICKS);
    let zero = scale.zero.as_secs_f64();
    let (from, to) = (scale.start.as_secs_f64() - zero, scale.end.as_secs_f64() - zero);
    let bottom = height - FOOT;
    let mut tick = (from / step).ceil() as i64;
    while tick as f64 * step <= to {
        let seconds = tick as f64 * step;
        let x = LEFT + (seconds - from) / (to - from) * (WIDTH - LEFT - RIGHT);
        let label = tick_label(seconds);
        write!(
            out,
            r#"<path class="grid" d="M{x:.1} {TOP}V{bottom:.1}"/><text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
            bottom + 15.0
        )?;
        tick += 1;
    }
    let what = if scale.zero_is_effect { "since effect" } else { "since begin" };
    write!(out, r#"<text class="tick" x="4" y="{:.1}">{what}</text>"#, height - 2.0)
}

/// 1, 2 or 5 times a power of ten, at least as long as asked.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= at_least * 0.999)
        .unwrap_or(10.0 * power)
}

fn tick_label(seconds: f64) -> String {
    let time = Nanos((seconds.abs() * 1e9).round() as u64);
    match time.0 {
        0 => "0".to_owned(),
        _ if seconds < 0.0 => format!("−{time}"),
        _ => time.to_string(),
    }
}

/// The fault windows: over the lanes of target ranks, or over all lanes for nodes and links.
fn windows(out: &mut String, case: &CaseResult, scale: &Scale, height: f64) -> FmtResult {
    let plan = &case.history.plan;
    let mut label_at = TOP - 8.0;
    for (fault, report) in plan.faults.iter().zip(&case.report.faults) {
        let Some(effect) = report.effect else { continue };
        let from = scale.x(effect);
        let to = scale.x(report.healed.unwrap_or(scale.end));
        let width = (to - from).max(1.5);
        let all = (TOP, height - FOOT - TOP);
        let bands: Vec<(f64, f64)> = match fault.kind.acts_on() {
            ActsOn::Ranks => fault.target.ranks.iter().map(|rank| lane_of(*rank)).collect(),
            ActsOn::Nodes | ActsOn::Links => vec![all],
        };
        for (y, tall) in bands {
            write!(
                out,
                r#"<rect class="window" x="{from:.1}" y="{y:.1}" width="{width:.1}" height="{tall:.1}"/>"#
            )?;
        }
        let (anchor, x) =
            if from > WIDTH * 0.7 { ("end", from - 4.0) } else { ("start", from + 4.0) };
        write!(
            out,
            r#"<path class="effect" d="M{from:.1} {:.1}V{:.1}"/><text class="fault" x="{x:.1}" y="{label_at:.1}" text-anchor="{anchor}">{}</text>"#,
            TOP - 18.0,
            height - FOOT,
            escaped(&report.label)
        )?;
        label_at = if label_at < TOP - 10.0 { TOP - 8.0 } else { TOP - 17.0 };
    }
    Ok(())
}

fn lane_of(rank: Rank) -> (f64, f64) {
    (TOP + LANE * f64::from(rank), LANE)
}

/// The life of the process as a thin line, its operations as bars on it.
fn ops(out: &mut String, case: &CaseResult, rank: &RankReport, scale: &Scale, y: f64) -> FmtResult {
    let middle = y + 13.0;
    let end = rank.exited.map_or(scale.end, |moment| moment.at);
    write!(
        out,
        r#"<text class="lane" x="4" y="{:.1}">rank {}</text><path class="life" d="M{LEFT} {middle:.1}H{:.1}"/>"#,
        middle + 4.0,
        rank.rank,
        scale.x(end)
    )?;
    let events = case.history.events.iter().filter(|event| event.rank == Some(rank.rank));
    let records: Vec<&OpRecord> = events
        .filter_map(|event| match &event.what {
            What::Ops(summary) => Some(&summary.last),
            _ => None,
        })
        .flatten()
        .filter(|op| op.enqueued < end)
        .collect();
    for (class, finished) in [("ops", true), ("ops waiting", false)] {
        let of_class = records.iter().filter(|op| op.ended.is_some() == finished);
        let mut spans: Vec<(f64, f64)> = of_class
            .map(|op| (scale.x(op.enqueued), scale.x(op.ended.unwrap_or(end).min(end))))
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut path = String::new();
        for (from, to) in merged(&spans) {
            write!(path, "M{from:.1} {middle:.1}H{:.1}", to.max(from + 0.6))?;
        }
        if !path.is_empty() {
            write!(out, r#"<path class="{class}" d="{path}"/>"#)?;
        }
    }
    Ok(())
}

fn merged(spans: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut bars: Vec<(f64, f64)> = Vec::new();
    for &(from, to) in spans {
        match bars.last_mut() {
            Some(last) if from - last.1 < MERGE => last.1 = last.1.max(to),
            _ => bars.push((from, to)),
        }
    }
    bars
}

/// Noticing, abort and the end, and one line of text that says the same.
fn marks(
    out: &mut String,
    case: &CaseResult,
    rank: &RankReport,
    scale: &Scale,
    y: f64,
) -> FmtResult {
    let middle = y + 13.0;
    let exit = rank.exited.map(|moment| moment.at);
    if let Some(began) = rank.abort_began {
        let to = rank.abort_ended.map(|moment| moment.at).or(exit).unwrap_or(scale.end);
        let (from, to) = (scale.x(began.at), scale.x(to));
        let class = if rank.abort_ended.is_some() { "abort" } else { "abort open" };
        let (top, width) = (middle - BAR / 2.0, (to - from).max(2.0));
        write!(
            out,
            r#"<rect class="{class}" x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{BAR}"/>"#
        )?;
    }
    if let Some(exit) = exit {
        let x = scale.x(exit);
        if rank.by_harness {
            write!(
                out,
                r#"<rect class="killed" x="{:.1}" y="{:.1}" width="9" height="9"/>"#,
                x - 4.5,
                middle - 4.5
            )?;
        } else {
            write!(out, r#"<path class="exit" d="M{x:.1} {:.1}v16"/>"#, middle - 8.0)?;
        }
    }
    if let Some(noticed) = rank.detected {
        let x = scale.x(noticed.at);
        write!(out, r#"<path class="noticed" d="M{x:.1} {:.1}l5 6l-5 6l-5 -6z"/>"#, middle - 6.0)?;
    }
    let text = lane_text(case, rank);
    let anchor_at = rank.detected.map(|m| m.at).or(exit).unwrap_or(scale.start);
    let x = scale.x(anchor_at);
    let (anchor, x) =
        if x > WIDTH * 0.55 { ("end", (x + 4.0).min(WIDTH - RIGHT)) } else { ("start", x) };
    write!(
        out,
        r#"<text class="said" x="{x:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
        y + 32.0,
        escaped(&text)
    )
}

fn lane_text(case: &CaseResult, rank: &RankReport) -> String {
    let effect = case.report.job.effect;
    let mut parts = Vec::new();
    if rank.detected.is_some() {
        let time = phrases::since(rank.detected, effect);
        parts.push(format!("{} {time}", rank.detector).trim_end().to_owned());
    }
    match (rank.abort_began, rank.abort_ended) {
        (Some(began), Some(ended)) => {
            parts.push(format!("abort took {}", ended.at.since(began.at)))
        }
        (Some(_), None) => parts.push("abort never returned".to_owned()),
        (None, _) => {}
    }
    if rank.exited.is_some() {
        let time = phrases::since(rank.exited, effect);
        let at = if time.is_empty() { String::new() } else { format!(" at {time}") };
        parts.push(format!("{}{at}", phrases::end_of(rank)));
    }
    parts.join(" · ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_steps_are_round() {
        for (at_least, want) in [(0.3, 0.5), (1.0, 1.0), (1.2, 2.0), (0.07, 0.1), (60.0, 100.0)] {
            assert!((round_step(at_least) - want).abs() < 1e-9, "{at_least}");
        }
    }

    #[test]
    fn operations_close_to_each_other_are_one_bar() {
        let bars = merged(&[(1.0, 2.0), (2.1, 3.0), (5.0, 6.0)]);
        assert_eq!(bars, [(1.0, 3.0), (5.0, 6.0)]);
    }
}
