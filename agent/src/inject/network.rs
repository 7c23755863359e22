//! Faults of links: rules of the fabric, one direction at a time.
//!
//! The fabric is threads of the agent: rules vanish with it, so nothing here needs a journal entry.
//! Several faults may act on one direction at once; [`Links`] merges them and takes them apart.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use ringbreaker_scenarios::{
    case::Node,
    fault::{Delay, Loss, Rate},
    units::Nanos,
};

use super::{InjectError, Injector};
use crate::{
    fabric::{Fabric, FabricError, LinkCounters, Rule},
    journal::Undo,
};

/// A direction of a link.
type Direction = (Node, Node);

/// The fabric of a case with the faults that act on its links.
pub struct Links {
    fabric: Arc<Fabric>,
    active: Mutex<BTreeMap<Direction, BTreeMap<u32, Rule>>>,
}

impl Links {
    /// No fault yet.
    pub fn new(fabric: Arc<Fabric>) -> Links {
        Links { fabric, active: Mutex::new(BTreeMap::new()) }
    }

    /// An error when there is no such link.
    pub(super) fn known(&self, from: Node, to: Node) -> Result<(), FabricError> {
        self.fabric.counters(from, to).map(drop)
    }

    /// Sets (or, with none, takes away) what one fault does to a direction. False: the fabric does
    /// not have the sum of what is left then.
    fn set(
        &self,
        fault: u32,
        (from, to): Direction,
        rule: Option<Rule>,
    ) -> Result<bool, FabricError> {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = active.entry((from, to)).or_default();
        match rule {
            Some(rule) => rules.insert(fault, rule),
            None => rules.remove(&fault),
        };
        let wanted = merged(rules.values());
        self.fabric.set_rule(from, to, wanted)?;
        Ok(self.fabric.rule(from, to)? == wanted)
    }
}

/// What several rules amount to on one direction: delays add up, losses are independent, the lowest
/// rate holds.
fn merged<'a>(rules: impl Iterator<Item = &'a Rule>) -> Rule {
    rules.fold(Rule::default(), |sum, rule| Rule {
        delay: sum.delay + rule.delay,
        jitter: sum.jitter + rule.jitter,
        loss: 1.0 - (1.0 - sum.loss) * (1.0 - rule.loss),
        rate_bits: match (sum.rate_bits, rule.rate_bits) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        },
        partition: sum.partition || rule.partition,
    })
}

/// What a rule does to packets, and which counter and clock of the fabric tell that it did.
pub(super) struct Effect {
    fault: &'static str,
    rule: Rule,
    done: &'static str,
    /// How many packets, and when the first did.
    met: fn(&LinkCounters) -> (u64, Option<Nanos>),
}

/// A rule on some directions of links.
///
/// Witness: the fabric counted a packet of such a direction that met the rule. A link without
/// traffic has no witness. Effect: when the first such packet was taken up.
pub(super) struct Shaped {
    links: Arc<Links>,
    directions: Vec<Direction>,
    id: u32,
    effect: Effect,
    before: Vec<u64>,
}

impl Effect {
    pub(super) fn delay(fault: &Delay) -> Effect {
        let rule = Rule { delay: fault.by, jitter: fault.jitter, ..Rule::default() };
        Effect {
            fault: "delay",
            rule,
            done: "delayed",
            met: |link| (link.delayed, link.first.delayed),
        }
    }

    pub(super) fn loss(fault: &Loss) -> Effect {
        let rule = Rule { loss: fault.percent / 100.0, ..Rule::default() };
        Effect { fault: "loss", rule, done: "lost", met: |link| (link.lost, link.first.lost) }
    }

    pub(super) fn rate(fault: &Rate) -> Effect {
        let rule = Rule { rate_bits: Some(fault.mbit * 1e6), ..Rule::default() };
        Effect {
            fault: "rate",
            rule,
            done: "held back",
            met: |link| (link.rate_limited, link.first.rate_limited),
        }
    }

    pub(super) fn partition() -> Effect {
        let rule = Rule { partition: true, ..Rule::default() };
        Effect {
            fault: "partition",
            rule,
            done: "blocked",
            met: |link| (link.blocked, link.first.blocked),
        }
    }
}

impl Shaped {
    pub(super) fn new(
        effect: Effect,
        links: Arc<Links>,
        directions: Vec<Direction>,
        id: u32,
    ) -> Shaped {
        Shaped { links, directions, id, effect, before: Vec::new() }
    }

    fn counts(&self) -> Result<Vec<u64>, FabricError> {
        let count = |(from, to): &Direction| {
            Ok((self.effect.met)(&self.links.fabric.counters(*from, *to)?).0)
        };
        self.directions.iter().map(count).collect()
    }

    fn set(&self, rule: Option<Rule>, verb: &str) -> Result<(), InjectError> {
        let fault = self.effect.fault;
        for (from, to) in &self.directions {
            let link = format!("the link from node {from} to node {to}");
            let set = self.links.set(self.id, (*from, *to), rule).map_err(io::Error::other);
            let other = || io::Error::other("the fabric has another rule there");
            set.and_then(|right| right.then_some(()).ok_or_else(other))
                .map_err(InjectError::step(fault, format!("{verb} {link}")))?;
        }
        Ok(())
    }
}

impl Injector for Shaped {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let read = InjectError::step(self.effect.fault, "read the counters");
        self.before = self.counts().map_err(io::Error::other).map_err(read)?;
        self.set(Some(self.effect.rule), "put a rule on")
    }

    fn witness(&mut self) -> Option<String> {
        let met: Vec<String> = self
            .directions
            .iter()
            .zip(self.counts().ok()?)
            .zip(&self.before)
            .filter(|((_, now), before)| now > before)
            .map(|(((from, to), now), before)| {
                format!("{} from node {from} to node {to}", now - before)
            })
            .collect();
        let Effect { done, .. } = self.effect;
        (!met.is_empty()).then(|| format!("packets that the fabric {done}: {}", met.join(", ")))
    }

    fn effect(&self) -> Option<Nanos> {
        let first = |(from, to): &Direction| {
            (self.effect.met)(&self.links.fabric.counters(*from, *to).ok()?).1
        };
        self.directions.iter().filter_map(first).min()
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        self.set(None, "take the rule off")
    }
}

#[cfg(test)]
mod tests {
    use ringbreaker_scenarios::units::Nanos;

    use super::*;

    #[test]
    fn rules_of_several_faults_add_up_and_no_rule_is_a_free_pass() {
        let ms = Nanos::from_millis;
        let half = Rule { loss: 0.5, delay: ms(2), ..Rule::default() };
        let slow = Rule { rate_bits: Some(1e6), jitter: ms(1), delay: ms(3), ..Rule::default() };
        let slower = Rule { rate_bits: Some(1e5), loss: 0.5, ..Rule::default() };
        let sum = merged([half, slow, slower].iter());
        let wanted = Rule {
            delay: ms(5),
            jitter: ms(1),
            loss: 0.75,
            rate_bits: Some(1e5),
            partition: false,
        };
        assert_eq!(sum, wanted);
        assert!(merged([half, Rule { partition: true, ..half }].iter()).partition);
        assert_eq!(merged([].iter()), Rule::default());
        // A single rule must come through to the last bit: the fabric is compared with it.
        for rule in [half, slow, slower] {
            assert_eq!(merged([rule].iter()).loss, 1.0 - (1.0 - rule.loss));
        }
    }
}
