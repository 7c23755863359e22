//! What became of the job as a whole.

use ringbreaker_scenarios::{
    case::Rank,
    event::{Owner, What},
    words::Detector,
};

use super::{
    FaultReport, JobReport, Moment, RankReport,
    evidence::Evidence,
    faults::{Effect, moment},
};

pub(super) fn report(
    evidence: &Evidence,
    ranks: &[RankReport],
    faults: &[FaultReport],
) -> JobReport {
    let effect = Effect::first_of(faults);
    let first = first_detection(ranks);
    let last =
        |moments: Option<Vec<Moment>>| moments.and_then(|m| m.into_iter().max_by_key(|m| m.at));
    let survivors = || ranks.iter().filter(|rank| rank.survivor);
    JobReport {
        began: evidence.began,
        steady: evidence.steady,
        effect: effect.map(Effect::at),
        detected: first.map(|(moment, _, _)| moment),
        detected_by: first.map(|(_, rank, _)| rank),
        detector: first.map_or(Detector::Nobody, |(_, _, detector)| detector),
        gone: last(ranks.iter().map(|rank| rank.exited).collect()),
        survivors_gone: last(
            survivors().map(|rank| rank.exited.filter(|_| !rank.by_harness)).collect(),
        ),
        gpu_memory_free: evidence.gpu_memory_free.map(|at| moment(at, effect)),
        leftovers_of_job: leftovers(evidence, Owner::Job),
        leftovers_of_harness: leftovers(evidence, Owner::Harness),
        ended: evidence.ended.map(|(at, _)| at),
        end: evidence.ended.map(|(_, because)| because),
    }
}

/// The first to notice. That the kernel ended a rank that the fault was aimed at is the effect of
/// the fault, and nobody's notice of it.
fn first_detection(ranks: &[RankReport]) -> Option<(Moment, Rank, Detector)> {
    ranks
        .iter()
        .filter(|rank| rank.survivor || rank.detector != Detector::Kernel)
        .filter_map(|rank| rank.detected.map(|moment| (moment, rank.rank, rank.detector)))
        .min_by_key(|(moment, rank, _)| (moment.at, *rank))
}

fn leftovers(evidence: &Evidence, owner: Owner) -> Vec<String> {
    let mut found: Vec<String> = evidence
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::LeftOver { of, what } if *of == owner => Some(what.clone()),
            _ => None,
        })
        .collect();
    found.sort();
    found
}
