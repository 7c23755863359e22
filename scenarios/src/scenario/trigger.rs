//! `when = { ... }`: the moment at which a fault is injected.

use super::{
    fault::Context,
    table::{Table, Value},
    value,
};
use crate::{case::Trigger, problem::Collector, words::Phase};

/// What would be right.
pub(super) const RIGHT: &str =
    "when = { iteration = 50 }, { after = \"1s\" } or { phase = \"init\" }";

/// Reads a trigger and sees whether it can be reached.
pub(super) fn trigger(
    v: &Value<'_>,
    context: &Context<'_>,
    c: &mut Collector<'_>,
) -> Option<Trigger> {
    let mut t = Table::of(v, "when", RIGHT, c)?;
    let after = t.optional("after");
    let iteration = t.optional("iteration");
    let phase = t.optional("phase");
    let given = [after, iteration, phase].iter().flatten().count();
    if t.entries().len() == given && given != 1 {
        c.at(v.span(), format!("when says {given} moments"), RIGHT);
    }
    t.finish(c);
    let after = after.and_then(|v| self::after(v, context, c));
    let iteration = iteration.and_then(|v| self::iteration(v, context, c));
    let phase = phase.and_then(|v| self::phase(v, c));
    after.or(iteration).or(phase)
}

fn after(v: &Value<'_>, context: &Context<'_>, c: &mut Collector<'_>) -> Option<Trigger> {
    let time = value::duration(v, c)?;
    if let Some(cap) = context.cap.filter(|cap| time >= *cap) {
        c.at(v.span(), format!("the case ends before, at {cap}"), "a time below case_cap");
        return None;
    }
    Some(Trigger::After(time))
}

fn iteration(v: &Value<'_>, context: &Context<'_>, c: &mut Collector<'_>) -> Option<Trigger> {
    let number = value::whole(v, 0, u32::MAX, c)?;
    let count = context.iterations.unwrap_or(u32::MAX);
    if number >= count {
        c.at(
            v.span(),
            format!("iteration {number} never comes: the workload has {count}"),
            format!("from 0 to {}", count - 1),
        );
        return None;
    }
    Some(Trigger::Iteration(number))
}

fn phase(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Trigger> {
    let phase = value::word(v, c)?;
    if phase == Phase::Done {
        c.at(v.span(), "in phase \"done\" there is nothing left to break", "an earlier phase");
        return None;
    }
    Some(Trigger::Phase(phase))
}
