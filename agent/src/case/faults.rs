//! Carries out what the trigger engine decides: journal, inject, witness, heal.
//!
//! Lives on the case's thread. Undos are journalled and synced when the faults are armed, before the
//! ranks begin, so that no disk stands between a trigger and its effect; undoing what was never done
//! is harmless.

use std::{collections::VecDeque, iter, sync::Arc, time::Duration};

use ringbreaker_scenarios::{
    case::FaultPlan,
    event::{HealReason, What},
    units::Nanos,
};

use super::{
    CaseError,
    history::History,
    site::mark_done,
    triggers::{Action, FaultId, Input, Triggers},
};
use crate::{
    inject::{self, Ground, Injector},
    journal::{EntryId, Journal},
    stop::Switch,
    sys::clock,
};

/// How often evidence is looked for: often at first, when most effects come.
const LOOK_SOON: Nanos = Nanos(200_000);
const LOOK_LATER: Nanos = Nanos::from_millis(2);
/// How long "at first" is.
const SOON: Nanos = Nanos::from_millis(10);

/// Whether a fault's effect was seen.
#[derive(Clone, Copy, Debug)]
enum Witness {
    /// Not in force yet, or not any more.
    Closed,
    /// Looked for since this moment, next at that one.
    Looking { since: Nanos, next: Nanos },
    /// Seen.
    Seen,
}

/// A fault that is ready to be injected.
struct Armed {
    injector: Box<dyn Injector>,
    /// Its undos in the journal.
    entries: Vec<EntryId>,
    witness: Witness,
    /// It could not be healed: its undos stay in the journal.
    stuck: bool,
}

/// The faults of a case and their injectors.
pub(super) struct Faults {
    triggers: Triggers,
    armed: Vec<Armed>,
    journal: Arc<Journal>,
    switch: Switch,
}

impl Faults {
    /// Makes every injector and journals every undo.
    pub(super) fn arm(
        plans: &[FaultPlan],
        ground: &Ground,
        journal: Arc<Journal>,
        switch: Switch,
    ) -> Result<Faults, CaseError> {
        let mut armed = Vec::with_capacity(plans.len());
        for plan in plans {
            let injector = inject::injector(plan, ground)
                .map_err(|source| CaseError::Fault { label: plan.label.clone(), source })?;
            let entries = injector
                .undo()
                .iter()
                .map(|undo| journal.record(undo))
                .collect::<Result<_, _>>()
                .map_err(|source| CaseError::Step { step: "write the journal", source })?;
            armed.push(Armed { injector, entries, witness: Witness::Closed, stuck: false });
        }
        Ok(Faults { triggers: Triggers::new(plans, clock::now()), armed, journal, switch })
    }

    /// Tells the engine what happened and does what it says.
    pub(super) fn feed(&mut self, input: Input, history: &mut History) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for action in self.triggers.step(clock::now(), input) {
                match action {
                    Action::Inject(id) => {
                        let injected = self.inject(id, history);
                        inputs.extend(iter::once(injected).chain(self.look(id, history)));
                    }
                    Action::Heal(id, because) => self.heal(id, because, history),
                }
            }
        }
    }

    /// Looks for evidence where it is time to, and passes deadlines.
    pub(super) fn tick(&mut self, history: &mut History) {
        for id in self.ids() {
            if let Some(witnessed) = self.look(id, history) {
                self.feed(witnessed, history);
            }
        }
        if self.triggers.next_deadline().is_some_and(|deadline| deadline <= clock::now()) {
            self.feed(Input::Tick, history);
        }
    }

    /// How long until [`Faults::tick`] is due; none: nothing is.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        let looks = self.armed.iter().filter_map(|armed| match armed.witness {
            Witness::Looking { next, .. } => Some(next),
            Witness::Closed | Witness::Seen => None,
        });
        let next = looks.chain(self.triggers.next_deadline()).min()?;
        Some(next.since(clock::now()).into())
    }

    /// Ends the search for evidence. Must come before the harness kills ranks: what it does to
    /// them must not pass for the effect of a fault.
    pub(super) fn close_witnesses(&mut self, history: &mut History) {
        for id in self.ids() {
            self.close_witness(id, history);
        }
    }

    fn ids(&self) -> std::ops::Range<FaultId> {
        0..FaultId::try_from(self.armed.len()).unwrap_or(FaultId::MAX)
    }

    fn inject(&mut self, id: FaultId, history: &mut History) -> Input {
        let Some(armed) = self.armed.get_mut(id as usize) else { return Input::Failed(id) };
        let triggered = clock::now();
        if let Some(stopped) = self.switch.look() {
            history.note(triggered, None, What::FaultTriggered { fault: id });
            history.now(What::FaultFailed { fault: id, reason: stopped.to_string() });
            armed.settle(&self.journal);
            return Input::Failed(id);
        }
        let injected = armed.injector.inject();
        let done = clock::now();
        history.note(triggered, None, What::FaultTriggered { fault: id });
        match injected {
            Ok(()) => {
                history.note(done, None, What::FaultInjected { fault: id });
                armed.witness = Witness::Looking { since: done, next: done };
                Input::Injected(id)
            }
            Err(error) => {
                let reason = error.to_string();
                history.note(done, None, What::FaultFailed { fault: id, reason });
                match armed.injector.heal() {
                    Ok(()) => armed.settle(&self.journal),
                    Err(error) => {
                        armed.stuck = true;
                        let reason = error.to_string();
                        history.now(What::HealFailed { fault: id, reason });
                    }
                }
                Input::Failed(id)
            }
        }
    }

    /// Looks for evidence if it is time to; the answer is for the engine.
    fn look(&mut self, id: FaultId, history: &mut History) -> Option<Input> {
        let armed = self.armed.get_mut(id as usize)?;
        let Witness::Looking { since, next } = armed.witness else { return None };
        let now = clock::now();
        if now < next {
            return None;
        }
        let Some(evidence) = armed.injector.witness() else {
            let pause = if now.since(since) < SOON { LOOK_SOON } else { LOOK_LATER };
            armed.witness = Witness::Looking { since, next: now + pause };
            return None;
        };
        armed.witness = Witness::Seen;
        let at = armed.injector.effect().unwrap_or_else(clock::now);
        history.note(at, None, What::FaultWitnessed { fault: id, evidence });
        Some(Input::Witnessed(id))
    }

    /// One last look.
    fn close_witness(&mut self, id: FaultId, history: &mut History) {
        if let Some(Armed { witness: Witness::Looking { next, .. }, .. }) =
            self.armed.get_mut(id as usize)
        {
            *next = Nanos::ZERO;
        }
        // The fault ends: its planned life does not matter any more.
        self.look(id, history);
        let Some(armed) = self.armed.get_mut(id as usize) else { return };
        if let Witness::Looking { since, .. } = armed.witness {
            let looked = clock::now().since(since);
            let reason = format!("no evidence of an effect was found in {looked}");
            history.now(What::FaultUnwitnessed { fault: id, reason });
            armed.witness = Witness::Closed;
        }
    }

    fn heal(&mut self, id: FaultId, because: HealReason, history: &mut History) {
        self.close_witness(id, history);
        let Some(armed) = self.armed.get_mut(id as usize) else { return };
        match armed.injector.heal() {
            Ok(()) => {
                history.now(What::FaultHealed { fault: id, because });
                armed.settle(&self.journal);
            }
            Err(error) => {
                armed.stuck = true;
                let reason = error.to_string();
                history.now(What::HealFailed { fault: id, reason });
            }
        }
    }

    /// Lets go of faults that never fired, and of everything that helpers hold.
    pub(super) fn disarm(self) {
        let Faults { triggers: _, armed, journal, switch: _ } = self;
        for Armed { injector, entries, witness: _, stuck } in armed {
            // Ends its helpers; only then is there nothing to undo.
            drop(injector);
            if !stuck {
                entries.into_iter().for_each(|entry| mark_done(&journal, entry));
            }
        }
    }
}

impl Armed {
    fn settle(&mut self, journal: &Journal) {
        self.entries.drain(..).for_each(|entry| mark_done(journal, entry));
    }
}
