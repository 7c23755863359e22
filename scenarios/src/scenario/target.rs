//! `target = ...`: what a fault is aimed at, and whether its kind can hit that.

use std::ops::Range;

use super::{
    model::TargetSpec,
    table::{Table, Value, type_of},
    value,
};
use crate::{
    case::{ClusterPlan, Node},
    fault::{ActsOn, FaultKind},
    nearest,
    problem::Collector,
};

/// What would be right.
pub(super) const RIGHT: &str = "target = \"one\", \"minority\", \"all\", { rank = 1 }, \
                                { ranks = [1, 2] }, { node = 1 }, { link = [0, 1] } or \
                                { one_way = [0, 1] }";
const WORDS: &[&str] = &["one", "minority", "all"];

/// Reads a target; numbers are held against the cluster where that is known.
pub(super) fn target(
    v: &Value<'_>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) -> Option<TargetSpec> {
    if let Some(word) = v.get_ref().as_str() {
        return match word {
            "one" => Some(TargetSpec::One),
            "minority" => Some(TargetSpec::Minority),
            "all" => Some(TargetSpec::All),
            other => {
                c.at(
                    v.span(),
                    format!("there is no target {other:?}"),
                    nearest::hint(other, WORDS),
                );
                None
            }
        };
    }
    if !v.get_ref().is_table() {
        c.at(v.span(), format!("target is {}", type_of(v.get_ref())), RIGHT);
        return None;
    }
    numbered(Table::of(v, "target", RIGHT, c)?, cluster, c)
}

fn numbered(
    mut t: Table<'_, '_>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) -> Option<TargetSpec> {
    let last_node = cluster.map_or(u32::MAX, |cluster| cluster.nodes - 1);
    let last_rank = cluster.map_or(u32::MAX, |cl| cl.nodes * cl.ranks_per_node - 1);
    let keys = t.entries().len();
    let span = t.span();
    let rank = t
        .optional("rank")
        .map(|v| number("rank", v, last_rank, c).map(|r| TargetSpec::Ranks(vec![r])));
    let ranks = t.optional("ranks").map(|v| {
        let ranks = value::one_or_more(v, c, |v, c| number("rank", v, last_rank, c));
        ranks.map(TargetSpec::Ranks)
    });
    let node = t.optional("node").map(|v| number("node", v, last_node, c).map(TargetSpec::Node));
    let link =
        t.optional("link").map(|v| ends(v, last_node, c).map(|(a, b)| TargetSpec::Link(a, b)));
    let one_way =
        t.optional("one_way").map(|v| ends(v, last_node, c).map(|(a, b)| TargetSpec::OneWay(a, b)));
    t.finish(c);
    let given: Vec<_> = [rank, ranks, node, link, one_way].into_iter().flatten().collect();
    if given.len() != 1 && given.len() == keys {
        c.at(span, format!("target says {keys} things"), RIGHT);
    }
    given.into_iter().flatten().next()
}

/// A rank or node that exists.
fn number(what: &str, v: &Value<'_>, last: u32, c: &mut Collector<'_>) -> Option<u32> {
    let number = value::whole(v, 0, u32::MAX, c)?;
    if number > last {
        c.at(
            v.span(),
            format!("there is no {what} {number}"),
            format!("{what}s run from 0 to {last}"),
        );
        return None;
    }
    Some(number)
}

/// The two ends of a link.
fn ends(v: &Value<'_>, last: Node, c: &mut Collector<'_>) -> Option<(Node, Node)> {
    let right = "two different nodes, such as [0, 1]";
    let items: Vec<&Value<'_>> =
        v.get_ref().as_array().map(|a| a.iter().collect()).unwrap_or_default();
    let [a, b] = items.as_slice() else {
        c.at(v.span(), "a link has two ends", right);
        return None;
    };
    let (from, to) = (number("node", a, last, c), number("node", b, last, c));
    if from.is_some() && from == to {
        c.at(v.span(), "a node has no link to itself", right);
        return None;
    }
    from.zip(to)
}

/// Whether a kind can hit such a target.
pub(super) fn check_fits(
    kind: &FaultKind,
    target: &TargetSpec,
    span: &Range<usize>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) {
    let name = kind.name();
    let is_link = matches!(target, TargetSpec::Link(..) | TargetSpec::OneWay(..));
    let refusal = match kind.acts_on() {
        ActsOn::Ranks if is_link => Some((
            format!("{name} acts on ranks, not on links"),
            "{ rank = 1 }, { ranks = [...] }, { node = 1 } or a word",
        )),
        ActsOn::Nodes if is_link => Some((
            format!("{name} acts on nodes, not on links"),
            "{ node = 1 }, { rank = 1 } for the node of that rank, or a word",
        )),
        ActsOn::Links if matches!(target, TargetSpec::Ranks(_)) => Some((
            format!("{name} acts on links, not on ranks"),
            "{ link = [0, 1] }, { one_way = [0, 1] }, { node = 1 } or a word",
        )),
        ActsOn::Links if cluster.is_some_and(|cluster| cluster.nodes < 2) => Some((
            format!("{name} acts on links, and a single node has none"),
            "nodes = 2 or more under [cluster]",
        )),
        _ => None,
    };
    if let Some((message, right)) = refusal {
        c.at(span.clone(), message, right);
    }
    check_hits_rank_0(kind, target, span, cluster, c);
}

/// The rendezvous port is bound where rank 0 runs; taken elsewhere, it hits nobody.
fn check_hits_rank_0(
    kind: &FaultKind,
    target: &TargetSpec,
    span: &Range<usize>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) {
    let own_port = match kind {
        FaultKind::TakePort(fault) => fault.number().is_some(),
        FaultKind::MuteListener(fault) => fault.port.is_some(),
        _ => return,
    };
    let each = cluster.map_or(1, |cluster| cluster.ranks_per_node);
    let hits = match target {
        TargetSpec::All | TargetSpec::Node(0) => true,
        TargetSpec::Ranks(ranks) => ranks.iter().any(|rank| rank / each == 0),
        TargetSpec::One | TargetSpec::Minority => cluster.is_none_or(|cluster| cluster.nodes == 1),
        // Refused already.
        TargetSpec::Link(..) | TargetSpec::OneWay(..) => true,
        TargetSpec::Node(_) => false,
    };
    if !own_port && !hits {
        c.at(
            span.clone(),
            "the rendezvous port is bound by rank 0, on node 0; taken elsewhere, it hits nobody",
            format!("{{ node = 0 }}, {{ rank = 0 }} or \"all\"; or a port of your own, inject.{} = {{ port = ... }}", kind.name()),
        );
    }
}
