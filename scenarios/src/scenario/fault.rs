//! `[[fault]]`: name, column, and whether kind, trigger, target and lifetime fit together.

use std::ops::Range;

use super::{
    expect, inject,
    model::{CLEAN, Expect, FaultSpec},
    settings::{PerRank, Settings, some_rank_aborts},
    table::Table,
    target, trigger, value,
};
use crate::{
    case::{ClusterPlan, Trigger},
    fault::FaultKind,
    problem::Collector,
    units::Nanos,
    words::Phase,
};

/// How long a fault without a planned end may live unless the controller renews its lease.
const DEFAULT_LEASE: Nanos = Nanos::from_secs(60);
/// How much longer than its planned life a fault may live unless the controller renews its lease.
const LEASE_MARGIN: Nanos = Nanos::from_secs(10);

/// What the rest of the file says, as far as it was right.
pub(super) struct Context<'a> {
    pub(super) cluster: Option<&'a ClusterPlan>,
    pub(super) iterations: Option<u32>,
    pub(super) cap: Option<Nanos>,
}

/// A fault with the places that checks across faults name.
pub(super) struct Placed {
    pub(super) spec: FaultSpec,
    when_span: Range<usize>,
    group_span: Option<Range<usize>>,
}

/// A name with its place.
type Name = (String, Range<usize>);

/// Reads every `[[fault]]`.
pub(super) fn faults(
    tables: Vec<Table<'_, '_>>,
    context: &Context<'_>,
    c: &mut Collector<'_>,
) -> Vec<Placed> {
    let mut taken = Vec::new();
    let mut all: Vec<Placed> = Vec::new();
    for t in tables {
        all.extend(fault(t, context, &mut taken, c));
    }
    for placed in &all {
        let Some(span) = &placed.group_span else { continue };
        let alone =
            |other: &&Placed| other.group_span.is_none() && other.spec.name == placed.spec.column;
        if all.iter().any(|other| alone(&other)) {
            c.at(
                span.clone(),
                format!("{:?} is a fault outside this group", placed.spec.column),
                "a name that no fault has, or the same group = in that fault too",
            );
        }
    }
    all
}

/// The matrix columns, in the order of the file.
pub(super) fn columns(faults: &[Placed], clean: bool) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    if clean || faults.is_empty() {
        columns.push(CLEAN.to_owned());
    }
    for Placed { spec, .. } in faults {
        if !columns.contains(&spec.column) {
            columns.push(spec.column.clone());
        }
    }
    columns
}

/// Reads one `[[fault]]`; none when something in it was wrong.
fn fault(
    mut t: Table<'_, '_>,
    context: &Context<'_>,
    taken: &mut Vec<String>,
    c: &mut Collector<'_>,
) -> Option<Placed> {
    let name = name(&mut t, "name", c);
    let group = self::name(&mut t, "group", c);
    let kind = t.table("inject", "inject.kill = {}, or another kind of fault", c);
    let kind = kind.and_then(|t| inject::kind(t, c));
    let when_at = t.required("when", trigger::RIGHT, c);
    let when = when_at.and_then(|v| trigger::trigger(v, context, c));
    let target_at = t.required("target", target::RIGHT, c);
    let target = target_at.and_then(|v| target::target(v, context.cluster, c));
    let (lasts, lease) = life(&mut t, kind.as_ref(), c);
    let expect = t.optional_table("expect", c);
    let expect = expect.map_or_else(Expect::default, |t| expect::of_fault(t, c));
    t.finish(c);

    let name = unique(name, kind.as_ref(), taken, c);
    let (kind, when_span) = (kind?, when_at?.span());
    if let (Some(target), Some(at)) = (&target, target_at) {
        target::check_fits(&kind, target, &at.span(), context.cluster, c);
    }
    if let Some(when) = when {
        check_when(&kind, when, &when_span, c);
    }
    let group_span = group.as_ref().map(|(_, span)| span.clone());
    let column = group.map_or_else(|| name.clone(), |(group, _)| group);
    let (when, target) = (when?, target?);
    let spec = FaultSpec { name, column, kind, when, target, lasts, lease, expect };
    Some(Placed { spec, when_span, group_span })
}

fn name(t: &mut Table<'_, '_>, key: &'static str, c: &mut Collector<'_>) -> Option<Name> {
    let v = t.optional(key)?;
    let name = value::sentence(v, c)?;
    if name == CLEAN {
        c.at(v.span(), format!("{CLEAN:?} is the column without faults"), "another name");
        return None;
    }
    Some((name, v.span()))
}

/// The fault's name: as written, or made from its kind, with a number where that is taken.
fn unique(
    written: Option<Name>,
    kind: Option<&FaultKind>,
    taken: &mut Vec<String>,
    c: &mut Collector<'_>,
) -> String {
    let name = match written {
        Some((name, span)) => {
            if taken.contains(&name) {
                c.at(
                    span,
                    format!("another fault is named {name:?}"),
                    "a name of its own for each",
                );
            }
            name
        }
        None => {
            let base = kind.map_or("fault", FaultKind::name).replace('_', "-");
            let numbered = (2..).map(|n| format!("{base}-{n}"));
            let mut candidates = std::iter::once(base.clone()).chain(numbered);
            candidates
                .find(|name| !taken.contains(name))
                .expect("there are more numbers than faults")
        }
    };
    taken.push(name.clone());
    name
}

/// Reads `lasts` and `lease`.
fn life(
    t: &mut Table<'_, '_>,
    kind: Option<&FaultKind>,
    c: &mut Collector<'_>,
) -> (Option<Nanos>, Nanos) {
    let lasts_at = t.optional("lasts");
    let lasts = lasts_at.and_then(|v| value::positive_duration(v, c));
    let cannot = match kind {
        Some(FaultKind::Kill(_)) => Some("a killed rank does not come back"),
        Some(FaultKind::LimitShm(_)) => Some("the size of /dev/shm holds for the whole case"),
        Some(FaultKind::ShiftClock(_)) => Some("a rank keeps its clocks for as long as it lives"),
        _ => None,
    };
    if let (Some(at), Some(reason)) = (lasts_at, cannot) {
        c.at(at.span(), format!("{reason}, so it has no end to plan"), "no `lasts` here");
    }
    let default = lasts.map_or(DEFAULT_LEASE, |life| life + LEASE_MARGIN);
    let Some(lease_at) = t.optional("lease") else { return (lasts, default) };
    let lease = value::positive_duration(lease_at, c).unwrap_or(default);
    if let Some(life) = lasts.filter(|life| lease < *life) {
        c.at(
            lease_at.span(),
            format!("this lease ends before the fault does, at {life}"),
            format!("\"{}\", or no `lease`", life + LEASE_MARGIN),
        );
    }
    (lasts, lease)
}

/// Whether a kind can be brought about at such a moment.
fn check_when(kind: &FaultKind, when: Trigger, span: &Range<usize>, c: &mut Collector<'_>) {
    let reason = match kind {
        FaultKind::LimitShm(_) => "a file system's size is set before the ranks begin",
        FaultKind::TakePort(port) if port.port.is_none() => {
            "the port is bound in init; taken later, it hits nobody"
        }
        FaultKind::ShiftClock(_) => "a process gets its clocks when it begins",
        FaultKind::MuteListener(_) => {
            "connections go to the one of several listeners that was there first"
        }
        _ => return,
    };
    if when != Trigger::Phase(Phase::BeforeInit) {
        c.at(
            span.clone(),
            format!("{} can not be triggered so: {reason}", kind.name()),
            "when = { phase = \"before-init\" }",
        );
    }
}

/// A fault inside abort needs something that makes a rank abort.
pub(super) fn check_abort_is_reached(
    faults: &[Placed],
    settings: &Settings,
    per_rank: &PerRank,
    c: &mut Collector<'_>,
) {
    for placed in faults.iter().filter(|p| p.spec.when == Trigger::Phase(Phase::Abort)) {
        let column = &placed.spec.column;
        let begins = |other: &&Placed| {
            other.spec.column == *column && other.spec.when != Trigger::Phase(Phase::Abort)
        };
        if !faults.iter().any(|other| begins(&other)) {
            c.at(
                placed.when_span.clone(),
                "no rank comes to abort: no other fault acts in this case",
                "the same group = \"...\" in this fault and in one that is triggered earlier",
            );
        }
        if !some_rank_aborts(settings, per_rank) {
            c.at(
                placed.when_span.clone(),
                "no rank comes to abort: none is set to",
                "error_handling = \"teardown\" or \"cleanup-only\" under [settings]",
            );
        }
    }
}
