//! The time of every operation of a case as a curve: operations to the right, time upwards.
//!
//! Inline SVG without script. A point is the slowest survivor's time, since a collective is done
//! when its last rank is; the scale is logarithmic, from a power of ten to a power of ten. The shaded
//! window holds the operations that a fault could touch.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Result as FmtResult, Write},
};

use ringbreaker_scenarios::{event::What, units::Nanos};

use crate::report::CaseResult;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const TALL: f64 = 110.0;
const FOOT: f64 = 22.0;
/// Fewer operations are no curve; the table says it all.
const ENOUGH: usize = 8;
/// More points than this are not told apart: of neighbours the slowest is drawn.
const POINTS: usize = 250;

/// One operation, over the surviving ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    op: u64,
    took: Nanos,
    /// A fault was in force for a part of it.
    touched: bool,
}

/// Draws the curve; empty when there are too few operations that ended.
pub(super) fn draw(case: &CaseResult) -> String {
    let points = thinned(&points(case), POINTS);
    if points.len() < ENOUGH {
        return String::new();
    }
    let mut out = String::new();
    write_all(&mut out, case, &points).expect("invariant: writing to a String cannot fail");
    out
}

/// In order of operations. The very first makes connections and is left out, as in the table.
fn points(case: &CaseResult) -> Vec<Point> {
    let survivors: BTreeSet<_> =
        case.report.ranks.iter().filter(|rank| rank.survivor).map(|rank| rank.rank).collect();
    let windows: Vec<(Nanos, Option<Nanos>)> =
        case.report.faults.iter().filter_map(|fault| Some((fault.effect?, fault.healed))).collect();
    let mut slowest: BTreeMap<u64, Point> = BTreeMap::new();
    for event in &case.history.events {
        let What::Ops(summary) = &event.what else { continue };
        if !event.rank.is_some_and(|rank| survivors.contains(&rank)) {
            continue;
        }
        for record in summary.last.iter().filter(|record| record.op != 0) {
            let Some(ended) = record.ended else { continue };
            let touched = windows.iter().any(|(effect, healed)| {
                ended > *effect && healed.is_none_or(|healed| record.enqueued < healed)
            });
            let took = ended.since(record.enqueued);
            let point = Point { op: record.op, took, touched };
            let known = slowest.entry(record.op).or_insert(point);
            known.took = known.took.max(took);
            known.touched |= touched;
        }
    }
    slowest.into_values().collect()
}

/// At most `limit` points, of each group of neighbours the slowest.
fn thinned(points: &[Point], limit: usize) -> Vec<Point> {
    let group = points.len().div_ceil(limit).max(1);
    points
        .chunks(group)
        .filter_map(|group| group.iter().copied().max_by_key(|point| point.took))
        .collect()
}

/// From operation and time to a place in the picture.
struct Scale {
    ops: (f64, f64),
    /// Exponents of ten, of nanoseconds.
    powers: (i32, i32),
}

impl Scale {
    fn of(points: &[Point]) -> Scale {
        let exponents = || points.iter().map(|point| (point.took.0.max(1) as f64).log10());
        let low = exponents().fold(f64::INFINITY, f64::min).floor() as i32;
        let high = exponents().fold(f64::NEG_INFINITY, f64::max).ceil() as i32;
        let op = |point: Option<&Point>| point.map_or(0.0, |point| point.op as f64);
        Scale { ops: (op(points.first()), op(points.last())), powers: (low, high.max(low + 1)) }
    }

    fn x(&self, op: f64) -> f64 {
        let (first, last) = self.ops;
        LEFT + (op - first) / (last - first).max(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, took: Nanos) -> f64 {
        let (low, high) = self.powers;
        let share = ((took.0.max(1) as f64).log10() - f64::from(low)) / f64::from(high - low);
        TOP + (1.0 - share) * TALL
    }
}

fn write_all(out: &mut String, case: &CaseResult, points: &[Point]) -> FmtResult {
    let scale = Scale::of(points);
    let (height, bottom) = (TOP + TALL + FOOT, TOP + TALL);
    write!(
        out,
        r#"<svg class="timeline curve" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="operation times of case {}">"#,
        case.history.plan.index
    )?;
    for power in scale.powers.0..=scale.powers.1 {
        let time = Nanos(10u64.pow(power.unsigned_abs()));
        let y = scale.y(time);
        write!(
            out,
            r#"<path class="grid" d="M{LEFT} {y:.1}H{:.0}"/><text class="tick" x="{:.0}" y="{:.1}" text-anchor="end">{time}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        )?;
    }
    for (from, to) in touched(points) {
        let (from, to) = (scale.x(from as f64 - 0.5).max(LEFT), scale.x(to as f64 + 0.5));
        let width = to.min(WIDTH - RIGHT) - from;
        write!(
            out,
            r#"<rect class="window" x="{from:.1}" y="{TOP}" width="{width:.1}" height="{TALL}"/>"#
        )?;
    }
    let line: Vec<String> = points
        .iter()
        .map(|point| format!("{:.1} {:.1}", scale.x(point.op as f64), scale.y(point.took)))
        .collect();
    write!(
        out,
        r#"<path class="took" d="M{}"/><text class="tick" x="4" y="{:.1}">operation</text>"#,
        line.join("L"),
        bottom + 16.0
    )?;
    for (op, anchor) in [(scale.ops.0, "start"), (scale.ops.1, "end")] {
        let (x, y) = (scale.x(op), bottom + 16.0);
        let x = if anchor == "start" { x + 8.0 } else { x };
        write!(
            out,
            r#"<text class="tick" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{op}</text>"#
        )?;
    }
    out.write_str("</svg>")
}

/// First and last operation of each stretch that a fault touched.
fn touched(points: &[Point]) -> Vec<(u64, u64)> {
    points
        .chunk_by(|a, b| a.touched == b.touched)
        .filter(|stretch| stretch[0].touched)
        .filter_map(|stretch| Some((stretch.first()?.op, stretch.last()?.op)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(op: u64, took: u64, touched: bool) -> Point {
        Point { op, took: Nanos(took), touched }
    }

    #[test]
    fn of_neighbours_the_slowest_is_kept() {
        let points: Vec<Point> =
            (1..=6).map(|op| point(op, if op == 4 { 900 } else { op }, false)).collect();
        let ops = |points: Vec<Point>| points.iter().map(|point| point.op).collect::<Vec<_>>();
        assert_eq!(ops(thinned(&points, 2)), [3, 4]);
        assert_eq!(ops(thinned(&points, 6)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(thinned(&[], 6), []);
    }

    #[test]
    fn stretches_under_a_fault_have_a_beginning_and_an_end() {
        let points = [
            point(1, 5, false),
            point(2, 5, true),
            point(3, 5, true),
            point(4, 5, false),
            point(5, 5, true),
        ];
        assert_eq!(touched(&points), [(2, 3), (5, 5)]);
    }

    #[test]
    fn the_scale_runs_between_powers_of_ten_and_upwards() {
        let scale = Scale::of(&[point(1, 20_000, false), point(9, 3_000_000, false)]);
        assert_eq!(scale.powers, (4, 7));
        assert!(scale.y(Nanos(3_000_000)) < scale.y(Nanos(20_000)));
        // All alike is still a scale.
        assert_eq!(Scale::of(&[point(1, 1_000, false)]).powers, (3, 4));
    }
}
