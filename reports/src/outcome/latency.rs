//! Operation times before the effect, under the fault and after it; and what counts as slower.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    event::OpRecord,
    units::{Bytes, Nanos},
    words::Collective,
};

use super::{FaultReport, LatencyReport, RankReport, Spread, evidence::Evidence};

/// The job is slower when the median operation under the fault takes this many times the clean tail
/// (99th percentile) ...
pub const SLOWER_FACTOR: f64 = 1.5;
/// ... and exceeds it by this much: below, scheduling noise would be taken for the fault.
pub const SLOWER_MARGIN: Nanos = Nanos::from_millis(1);
/// Or when a single operation takes this many times the longest clean one ...
pub const STALL_FACTOR: f64 = 3.0;
/// ... and exceeds it by this much: one operation is a weaker witness than the median of many.
pub const STALL_MARGIN: Nanos = Nanos::from_millis(100);
/// Fewer clean operations than this are no tail to compare with.
pub const CLEAN_ENOUGH: usize = 3;

#[derive(Default)]
struct Samples {
    clean: Vec<Nanos>,
    under_fault: Vec<Nanos>,
    after_heal: Vec<Nanos>,
}

/// One report a collective and size, over the black boxes of the survivors. The very first operation
/// makes connections and is left out. A black box is bounded: what it no longer holds is not here.
pub(super) fn report(
    evidence: &Evidence,
    ranks: &[RankReport],
    faults: &[FaultReport],
) -> Vec<LatencyReport> {
    let effect = faults.iter().filter_map(|f| f.effect).min();
    let healed = last_heal(faults);
    let mut samples: BTreeMap<(Collective, Bytes), Samples> = BTreeMap::new();
    for (rank, trace) in &evidence.traces {
        if !ranks.iter().any(|r| r.rank == *rank && r.survivor) {
            continue;
        }
        for op in trace.ops.iter().flat_map(|ops| &ops.last).filter(|op| op.op != 0) {
            samples.entry((op.collective, op.bytes)).or_default().add(op, effect, healed);
        }
    }
    samples
        .into_iter()
        .map(|((collective, bytes), samples)| LatencyReport {
            operation: format!("{collective} {bytes}"),
            clean: Spread::of(samples.clean),
            under_fault: Spread::of(samples.under_fault),
            after_heal: Spread::of(samples.after_heal),
        })
        .collect()
}

/// When the last fault that had an effect was undone; none while one of them is in force.
fn last_heal(faults: &[FaultReport]) -> Option<Nanos> {
    faults
        .iter()
        .filter(|fault| fault.effect.is_some())
        .map(|fault| fault.healed)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

impl Samples {
    fn add(&mut self, op: &OpRecord, effect: Option<Nanos>, healed: Option<Nanos>) {
        let Some(ended) = op.ended else { return };
        let time = ended.since(op.enqueued);
        match effect {
            Some(effect) if ended > effect => {
                if healed.is_some_and(|healed| op.enqueued >= healed) {
                    self.after_heal.push(time);
                } else {
                    self.under_fault.push(time);
                }
            }
            _ => self.clean.push(time),
        }
    }
}

/// What the comparison with the clean tail says.
pub(super) enum Pace {
    /// Slower, with the sentence that says how.
    Slower(String),
    /// As before.
    Same,
    /// There is nothing to compare with, or nothing to compare.
    Unmeasured,
}

/// Compares the times under the fault with the clean tail.
pub(super) fn pace(latency: &[LatencyReport]) -> Pace {
    let mut measured = false;
    for report in latency {
        let (Some(clean), Some(under)) = (report.clean, report.under_fault) else { continue };
        if clean.count < CLEAN_ENOUGH {
            continue;
        }
        measured = true;
        if exceeds(under.median, clean.p99, SLOWER_FACTOR, SLOWER_MARGIN) {
            return Pace::Slower(format!(
                "{} took {} (median under the fault) against a clean tail of {} (p99)",
                report.operation, under.median, clean.p99
            ));
        }
        if exceeds(under.max, clean.max, STALL_FACTOR, STALL_MARGIN) {
            return Pace::Slower(format!(
                "one {} took {} under the fault, the longest clean one {}",
                report.operation, under.max, clean.max
            ));
        }
    }
    if measured { Pace::Same } else { Pace::Unmeasured }
}

fn exceeds(found: Nanos, clean: Nanos, factor: f64, margin: Nanos) -> bool {
    found.0 as f64 >= clean.0 as f64 * factor && found.since(clean) >= margin
}
