//! What became of each planned fault.

use ringbreaker_scenarios::{case::FaultPlan, event::What, units::Nanos};

use super::{FaultReport, Moment, evidence::Evidence};

/// One report a planned fault, in order of the plan.
pub(super) fn report(evidence: &Evidence) -> Vec<FaultReport> {
    let mut reports: Vec<FaultReport> = evidence.plan.faults.iter().map(planned).collect();
    for event in &evidence.events {
        if let Some(report) =
            id_of(&event.what).and_then(|id| reports.iter_mut().find(|r| r.id == id))
        {
            add(report, event.at, &event.what);
        }
    }
    for report in &mut reports {
        report.latency =
            report.triggered.zip(report.effect).map(|(triggered, effect)| effect.since(triggered));
    }
    reports
}

fn planned(plan: &FaultPlan) -> FaultReport {
    FaultReport {
        id: plan.id,
        label: plan.label.clone(),
        triggered: None,
        injected: None,
        effect: None,
        evidence: None,
        latency: None,
        healed: None,
        healed_because: None,
        unexposed: None,
        unwitnessed: None,
        failed: None,
        heal_failed: None,
    }
}

fn id_of(what: &What) -> Option<u32> {
    match what {
        What::FaultTriggered { fault }
        | What::FaultInjected { fault }
        | What::FaultWitnessed { fault, .. }
        | What::FaultUnexposed { fault, .. }
        | What::FaultUnwitnessed { fault, .. }
        | What::FaultFailed { fault, .. }
        | What::FaultHealed { fault, .. }
        | What::HealFailed { fault, .. } => Some(*fault),
        _ => None,
    }
}

fn add(report: &mut FaultReport, at: Nanos, what: &What) {
    match what {
        What::FaultTriggered { .. } => report.triggered = report.triggered.or(Some(at)),
        What::FaultInjected { .. } => report.injected = report.injected.or(Some(at)),
        What::FaultWitnessed { evidence, .. } if report.effect.is_none() => {
            report.effect = Some(at);
            report.evidence = Some(evidence.clone());
        }
        What::FaultUnexposed { reason, .. } => report.unexposed = Some(reason.clone()),
        What::FaultUnwitnessed { reason, .. } => report.unwitnessed = Some(reason.clone()),
        What::FaultFailed { reason, .. } => report.failed = Some(reason.clone()),
        What::FaultHealed { because, .. } if report.healed.is_none() => {
            report.healed = Some(at);
            report.healed_because = Some(*because);
        }
        What::HealFailed { reason, .. } => report.heal_failed = Some(reason.clone()),
        _ => {}
    }
}

impl FaultReport {
    /// Whether anything was done to bring it about.
    pub fn fired(&self) -> bool {
        self.triggered.is_some() || self.injected.is_some() || self.effect.is_some()
    }
}

/// The first effect of a case's faults, as the zero of all times since.
#[derive(Clone, Copy)]
pub(super) struct Effect {
    at: Nanos,
    triggered: Nanos,
}

impl Effect {
    pub(super) fn first_of(faults: &[FaultReport]) -> Option<Effect> {
        faults
            .iter()
            .filter_map(|f| f.effect.map(|at| Effect { at, triggered: f.triggered.unwrap_or(at) }))
            .min_by_key(|effect| (effect.at, effect.triggered))
    }

    pub(super) fn at(self) -> Nanos {
        self.at
    }

    /// A witness looks every few milliseconds, so a rank may notice before the witness does:
    /// anything between trigger and effect counts as at the effect.
    fn since(self, at: Nanos) -> Option<Nanos> {
        (at >= self.triggered.min(self.at)).then(|| at.since(self.at))
    }
}

/// A moment, with its time since the effect where there was one before it.
pub(super) fn moment(at: Nanos, effect: Option<Effect>) -> Moment {
    Moment { at, since_effect: effect.and_then(|effect| effect.since(at)) }
}
