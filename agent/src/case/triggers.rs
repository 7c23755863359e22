//! When each fault of a case fires and when it is healed: a pure state machine.
//!
//! The case feeds it what ranks and injectors say and carries out what it answers. Guarantees: a
//! fault fires at most once and never before its trigger; a fault that fired is healed exactly
//! once; after the end nothing fires. A fault meant for the steady state or later never fires
//! without the steady state gate. It knows no clock, no process and no injector.

#[cfg(test)]
mod tests;

use ringbreaker_scenarios::{
    case::{FaultPlan, Rank, Trigger},
    event::HealReason,
    fault::ActsOn,
    units::Nanos,
    words::Phase,
};

use crate::lease;

/// Position of a fault within its case.
pub(super) type FaultId = u32;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The case began; its ranks are still before init.
    Began,
    /// Every rank is warm: the steady state gate.
    Steady,
    /// A rank entered a phase.
    Phase(Rank, Phase),
    /// A rank is about to begin a counted iteration.
    Iteration(Rank, u32),
    /// The injector returned.
    Injected(FaultId),
    /// The injector failed and took back what it had done.
    Failed(FaultId),
    /// The fault cannot be felt: it is not to fire.
    Unexposed(FaultId),
    /// The fault took effect.
    Witnessed(FaultId),
    /// The controller was heard.
    Renewed,
    /// Time passed; see [`Triggers::next_deadline`].
    Tick,
    /// The case ends: everything is healed for this reason.
    End(HealReason),
}

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Inject a fault now.
    Inject(FaultId),
    /// Heal a fault now.
    Heal(FaultId, HealReason),
}

/// One fault's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Its trigger was not reached. `met`: it was, but for the steady state gate.
    Waiting { met: bool },
    /// Told to be injected.
    Fired,
    /// In force. Its planned life counts from its effect, or from its injection until that is seen.
    InForce { injected: Nanos, since: Nanos },
    /// Healed, failed, or never to fire any more.
    Over,
}

struct Fault {
    plan: FaultPlan,
    life: Life,
}

/// The faults of one case.
pub(super) struct Triggers {
    faults: Vec<Fault>,
    steady: Option<Nanos>,
    renewed: Nanos,
    ended: bool,
}

impl Triggers {
    /// None has fired; the lease was renewed at `now`.
    pub(super) fn new(faults: &[FaultPlan], now: Nanos) -> Triggers {
        let life = Life::Waiting { met: false };
        let faults = faults.iter().map(|plan| Fault { plan: plan.clone(), life }).collect();
        Triggers { faults, steady: None, renewed: now, ended: false }
    }

    /// Takes one input and says what is to be done.
    pub(super) fn step(&mut self, now: Nanos, input: Input) -> Vec<Action> {
        match input {
            Input::Steady => self.steady = self.steady.or(Some(now)),
            Input::Renewed => self.renewed = self.renewed.max(now),
            Input::Injected(id) => {
                self.live(id, |_| Life::InForce { injected: now, since: now });
            }
            Input::Witnessed(id) => self.live(id, |life| match life {
                Life::InForce { injected, .. } => Life::InForce { injected, since: now },
                other => other,
            }),
            Input::Failed(id) => self.live(id, |_| Life::Over),
            Input::Unexposed(id) => self.withdraw(id),
            Input::End(reason) => return self.end(reason),
            Input::Began | Input::Phase(..) | Input::Iteration(..) | Input::Tick => {}
        }
        if self.ended {
            return Vec::new();
        }
        let (steady, renewed) = (self.steady, self.renewed);
        self.faults.iter_mut().filter_map(|fault| fault.step(now, input, steady, renewed)).collect()
    }

    /// When the next [`Input::Tick`] is due.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        if self.ended {
            return None;
        }
        self.faults.iter().filter_map(|fault| fault.deadline(self.steady, self.renewed)).min()
    }

    /// Changes the life of a fault that has fired and is not over.
    fn live(&mut self, id: FaultId, change: impl FnOnce(Life) -> Life) {
        let fault = self.faults.iter_mut().find(|fault| fault.plan.id == id);
        if let Some(fault) = fault
            && !matches!(fault.life, Life::Waiting { .. } | Life::Over)
        {
            fault.life = change(fault.life);
        }
    }

    /// Keeps a fault that waits from firing.
    fn withdraw(&mut self, id: FaultId) {
        let fault = self.faults.iter_mut().find(|fault| fault.plan.id == id);
        if let Some(fault) = fault
            && matches!(fault.life, Life::Waiting { .. })
        {
            fault.life = Life::Over;
        }
    }

    /// Heals everything in force, the youngest first.
    fn end(&mut self, reason: HealReason) -> Vec<Action> {
        self.ended = true;
        let mut actions = Vec::new();
        for fault in self.faults.iter_mut().rev() {
            if matches!(fault.life, Life::Fired | Life::InForce { .. }) {
                actions.push(Action::Heal(fault.plan.id, reason));
            }
            fault.life = Life::Over;
        }
        actions
    }
}

impl Fault {
    fn step(
        &mut self,
        now: Nanos,
        input: Input,
        steady: Option<Nanos>,
        renewed: Nanos,
    ) -> Option<Action> {
        match self.life {
            Life::Waiting { met } => {
                let met = met || self.is_met(now, input, steady);
                let open = before_steady(self.plan.when) || steady.is_some();
                if met && open {
                    self.life = Life::Fired;
                    return Some(Action::Inject(self.plan.id));
                }
                self.life = Life::Waiting { met };
                None
            }
            Life::InForce { injected, since } => {
                let lease_over = now >= lease::expires(injected, renewed, self.plan.lease);
                let life_over = self.plan.lasts.is_some_and(|lasts| now >= since + lasts);
                let reason = match (life_over, lease_over) {
                    (true, _) => HealReason::LifeOver,
                    (false, true) => HealReason::LeaseExpired,
                    (false, false) => return None,
                };
                self.life = Life::Over;
                Some(Action::Heal(self.plan.id, reason))
            }
            Life::Fired | Life::Over => None,
        }
    }

    /// Whether this input is what the trigger waits for.
    fn is_met(&self, now: Nanos, input: Input, steady: Option<Nanos>) -> bool {
        match (self.plan.when, input) {
            (Trigger::After(wait), _) => steady.is_some_and(|steady| now >= steady + wait),
            // Ranks report this phase when they start, before anybody may touch them.
            (Trigger::Phase(Phase::BeforeInit), input) => input == Input::Began,
            (Trigger::Phase(wanted), Input::Phase(rank, phase)) => {
                phase == wanted && self.watches(rank)
            }
            (Trigger::Iteration(wanted), Input::Iteration(rank, iteration)) => {
                iteration == wanted && self.watches(rank)
            }
            _ => false,
        }
    }

    /// For faults of ranks: the first target rank that gets there; for others: any rank.
    fn watches(&self, rank: Rank) -> bool {
        match self.plan.kind.acts_on() {
            ActsOn::Ranks => self.plan.target.ranks.contains(&rank),
            ActsOn::Nodes | ActsOn::Links => true,
        }
    }

    fn deadline(&self, steady: Option<Nanos>, renewed: Nanos) -> Option<Nanos> {
        match self.life {
            Life::Waiting { .. } => match (self.plan.when, steady) {
                (Trigger::After(wait), Some(steady)) => Some(steady + wait),
                _ => None,
            },
            Life::InForce { injected, since } => {
                let lease = lease::expires(injected, renewed, self.plan.lease);
                Some(self.plan.lasts.map_or(lease, |lasts| lease.min(since + lasts)))
            }
            Life::Fired | Life::Over => None,
        }
    }
}

/// Whether a trigger comes before the steady state gate, so that it does not wait for it.
pub(super) fn before_steady(when: Trigger) -> bool {
    matches!(when, Trigger::Phase(Phase::BeforeInit | Phase::Init | Phase::FirstOp))
}
