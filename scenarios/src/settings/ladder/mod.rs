//! The ladder: every timer in force, in the order in which they fire, and those that never can.
//!
//! Timers compete only where they wait for the same thing from the same moment on, so there is one
//! ladder for each [`Situation`]: nobody listens, packets vanish, a rank is missing, a peer falls
//! silent, the watchdog has noticed something, the watchdog itself hangs. All times are computed from
//! settings, defaults and formulas of the sources; none is measured.
//!
//! `connect`, `operation` and `failure` say which timers there are; `timers` reads their values.

mod connect;
mod failure;
mod operation;
mod timers;

use std::collections::BTreeMap;

use serde::Serialize;

use self::timers::Timers;
use super::Versions;
use crate::units::Nanos;

/// What runs the collectives, and so which deadlines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framework {
    /// NCCL under ringbreaker's rank.
    Rank,
    /// NCCL under PyTorch's older implementation.
    ProcessGroupNccl,
    /// NCCL under PyTorch's newer one.
    Nccl2,
    /// PyTorch over gloo.
    Gloo,
}

/// What timers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// What runs the collectives.
    pub framework: Framework,
    /// Whether torchrun starts the ranks.
    pub torchrun: bool,
    /// Versions, on which defaults depend.
    pub versions: Versions,
}

/// A setting as it decides a timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decider {
    /// Its name.
    pub name: String,
    /// Its value, as typed, or the default.
    pub value: String,
    /// Whether somebody set it.
    pub set: bool,
}

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// What it is.
    pub name: &'static str,
    /// The settings that decide it.
    pub deciders: Vec<Decider>,
    /// The earliest moment at which it fires, counted from that of the situation; none: never.
    pub earliest: Option<Nanos>,
    /// The latest; none: nothing bounds it.
    pub latest: Option<Nanos>,
    /// How that was computed, or why it never fires.
    pub reason: String,
    /// What happens then.
    pub does: String,
    /// Whether the waiting is over then. Otherwise it is only reported.
    pub ends: bool,
}

/// Timers that wait for the same thing from the same moment on, in the order in which they fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Situation {
    /// Its name, for machines.
    pub name: &'static str,
    /// What it is, and the moment from which times are counted.
    pub title: &'static str,
    /// The timers, those that never fire last.
    pub rungs: Vec<Rung>,
}

/// Why a timer does not come to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shadow {
    /// Another one always fires first.
    Never,
    /// It was set, and is switched off.
    Off,
    /// Two of them end the wait, and either may be first.
    Race,
}

/// A timer that does not come to its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inversion {
    /// The situation.
    pub situation: &'static str,
    /// The timer.
    pub rung: &'static str,
    /// The one that is in its way, if it is another.
    pub behind: Option<&'static str>,
    /// Why.
    pub shadow: Shadow,
    /// Whether somebody set the timer that is lost. The defaults contain inversions too.
    pub set: bool,
    /// Whether it was set in vain: what was set decides no other timer that can fire.
    pub in_vain: bool,
    /// All of that as a sentence.
    pub message: String,
}

/// The timers of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ladder {
    /// The stack.
    pub stack: Stack,
    /// By situation.
    pub situations: Vec<Situation>,
    /// What is the wrong way round.
    pub inversions: Vec<Inversion>,
}

/// The ladder of these settings.
pub fn ladder(settings: &BTreeMap<String, String>, stack: Stack) -> Ladder {
    let timers = Timers { settings, stack };
    let situations: Vec<Situation> = [
        connect::refused(&timers),
        connect::refused_in_first_operation(&timers),
        connect::silent(&timers),
        connect::missing_rank(&timers),
        operation::silent_over_sockets(&timers),
        operation::silent_over_infiniband(&timers),
        failure::noticed(&timers),
        failure::noticed_elsewhere(&timers),
        failure::watchdog_hangs(&timers),
        failure::rank_died(&timers),
    ]
    .into_iter()
    .filter_map(ordered)
    .collect();
    let mut inversions: Vec<Inversion> = situations.iter().flat_map(inversions).collect();
    let vain: Vec<bool> =
        inversions.iter().map(|one| is_in_vain(one, &situations, &inversions)).collect();
    for (inversion, in_vain) in inversions.iter_mut().zip(vain) {
        inversion.in_vain = in_vain;
    }
    Ladder { stack, situations, inversions }
}

/// Whether some setting that somebody made for this timer decides no timer that can fire.
fn is_in_vain(inversion: &Inversion, situations: &[Situation], inversions: &[Inversion]) -> bool {
    let is_lost = |situation: &Situation, rung: &Rung| {
        let of = |one: &&Inversion| one.situation == situation.name && one.rung == rung.name;
        inversions.iter().filter(of).any(|one| one.shadow != Shadow::Race)
    };
    let everywhere_lost = |name: &str| {
        let decided = |rung: &&Rung| rung.deciders.iter().any(|d| d.set && d.name == name);
        let mut situations = situations.iter();
        situations.all(|s| s.rungs.iter().filter(decided).all(|rung| is_lost(s, rung)))
    };
    let here = situations.iter().filter(|situation| situation.name == inversion.situation);
    let rungs = here.flat_map(|situation| &situation.rungs);
    let mut deciders = rungs.filter(|rung| rung.name == inversion.rung).flat_map(|r| &r.deciders);
    deciders.any(|decider| decider.set && everywhere_lost(&decider.name))
}

/// In the order in which they fire; none: there is no timer.
fn ordered(mut situation: Situation) -> Option<Situation> {
    situation.rungs.sort_by_key(|rung| (rung.earliest.is_none(), rung.earliest, rung.latest));
    (!situation.rungs.is_empty()).then_some(situation)
}

/// The timer by whose latest moment the wait is over in any case.
fn end(situation: &Situation) -> Option<(usize, Nanos)> {
    let ends = situation.rungs.iter().enumerate().filter(|(_, rung)| rung.ends);
    ends.filter_map(|(at, rung)| {
        rung.earliest?;
        Some((at, rung.latest?))
    })
    .min_by_key(|(_, latest)| *latest)
}

fn inversions(situation: &Situation) -> Vec<Inversion> {
    let end = end(situation);
    let rungs = situation.rungs.iter().enumerate();
    rungs.filter_map(|(at, rung)| inversion(situation, at, rung, end)).collect()
}

fn inversion(
    situation: &Situation,
    at: usize,
    rung: &Rung,
    end: Option<(usize, Nanos)>,
) -> Option<Inversion> {
    let found = |shadow, behind: Option<&Rung>, message| Inversion {
        situation: situation.name,
        rung: rung.name,
        behind: behind.map(|other| other.name),
        shadow,
        set: rung.is_set(),
        in_vain: false,
        message,
    };
    let Some(earliest) = rung.earliest else {
        let message = format!("{} never fires: {}", rung.with_settings(), rung.reason);
        return rung.is_set().then(|| found(Shadow::Off, None, message));
    };
    let (first, latest) = end.filter(|(first, _)| *first != at)?;
    let other = &situation.rungs[first];
    if earliest >= latest {
        let message = format!(
            "{} ({}) can never fire: {} ({}) comes first",
            rung.with_settings(),
            rung.when(),
            other.with_settings(),
            other.when()
        );
        return Some(found(Shadow::Never, Some(other), message));
    }
    let late = rung.latest.is_none_or(|rung| rung > latest);
    let race = rung.ends && late && other.earliest.is_some_and(|other| other <= earliest);
    let message = || {
        let (one, two) = (other.with_settings(), rung.with_settings());
        format!("{one} ({}) and {two} ({}) may come in either order", other.when(), rung.when())
    };
    (race && (rung.is_set() || other.is_set())).then(|| found(Shadow::Race, Some(other), message()))
}

impl Rung {
    /// Whether somebody set what decides it.
    pub fn is_set(&self) -> bool {
        self.deciders.iter().any(|decider| decider.set)
    }

    /// The time at which it fires, in words.
    pub fn when(&self) -> String {
        match (self.earliest, self.latest) {
            (None, _) => "never".to_owned(),
            (Some(earliest), None) => format!("{} or later", seconds(earliest)),
            (Some(earliest), Some(latest)) => {
                let (earliest, latest) = (seconds(earliest), seconds(latest));
                if earliest == latest { latest } else { format!("{earliest} to {latest}") }
            }
        }
    }

    /// Its name, with the settings that somebody set.
    fn with_settings(&self) -> String {
        let set: Vec<String> = self
            .deciders
            .iter()
            .filter(|decider| decider.set)
            .map(|decider| format!("{}={}", decider.name, decider.value))
            .collect();
        if set.is_empty() {
            self.name.to_owned()
        } else {
            format!("{} of {}", self.name, set.join(", "))
        }
    }
}

/// A time with as many digits as anybody wants to see.
fn seconds(time: Nanos) -> String {
    let s = time.as_secs_f64();
    match s {
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 0.1 || s == 0.0 => {
            let text = format!("{s:.1}");
            format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        s => format!("{:.1} ms", s * 1000.0),
    }
}

#[cfg(test)]
mod tests;
