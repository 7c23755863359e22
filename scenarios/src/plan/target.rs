//! Who a fault hits: words are drawn, numbers taken as they are.

use super::draw::Draws;
use crate::{
    case::{ClusterPlan, Node, Target},
    fault::ActsOn,
    scenario::{FaultSpec, TargetSpec},
};

/// Resolves a fault's target. The scenario was found right, so it is in range and fits the kind.
pub(super) fn resolve(spec: &FaultSpec, cluster: &ClusterPlan, draws: &mut Draws) -> Target {
    match spec.kind.acts_on() {
        ActsOn::Ranks => Target { ranks: ranks(&spec.target, cluster, draws), ..Target::default() },
        ActsOn::Nodes => Target { nodes: nodes(&spec.target, cluster, draws), ..Target::default() },
        ActsOn::Links => Target {
            directions: directions(&spec.target, cluster.nodes, draws),
            ..Target::default()
        },
    }
}

/// The largest number below half, but at least one.
fn minority(of: u32) -> u32 {
    (of.saturating_sub(1) / 2).max(1)
}

fn ranks(target: &TargetSpec, cluster: &ClusterPlan, draws: &mut Draws) -> Vec<u32> {
    let each = cluster.ranks_per_node;
    let world = cluster.nodes * each;
    match target {
        TargetSpec::One => draws.some_below(world, 1),
        TargetSpec::Minority => draws.some_below(world, minority(world)),
        TargetSpec::All => (0..world).collect(),
        TargetSpec::Ranks(ranks) => ascending(ranks.clone()),
        TargetSpec::Node(node) => (node * each..(node + 1) * each).collect(),
        TargetSpec::Link(a, b) | TargetSpec::OneWay(a, b) => {
            unreachable!("link {a}-{b} as target of a fault of ranks passed the checks")
        }
    }
}

fn nodes(target: &TargetSpec, cluster: &ClusterPlan, draws: &mut Draws) -> Vec<Node> {
    match target {
        TargetSpec::One => draws.some_below(cluster.nodes, 1),
        TargetSpec::Minority => draws.some_below(cluster.nodes, minority(cluster.nodes)),
        TargetSpec::All => (0..cluster.nodes).collect(),
        TargetSpec::Ranks(ranks) => {
            ascending(ranks.iter().map(|rank| rank / cluster.ranks_per_node).collect())
        }
        TargetSpec::Node(node) => vec![*node],
        TargetSpec::Link(a, b) | TargetSpec::OneWay(a, b) => {
            unreachable!("link {a}-{b} as target of a fault of nodes passed the checks")
        }
    }
}

fn directions(target: &TargetSpec, nodes: u32, draws: &mut Draws) -> Vec<(Node, Node)> {
    match target {
        TargetSpec::One => {
            let ends = draws.some_below(nodes, 2);
            vec![(ends[0], ends[1]), (ends[1], ends[0])]
        }
        TargetSpec::Minority => around(&draws.some_below(nodes, minority(nodes)), nodes),
        TargetSpec::All => pairs(nodes).collect(),
        TargetSpec::Node(node) => around(&[*node], nodes),
        TargetSpec::Link(a, b) => ascending(vec![(*a, *b), (*b, *a)]),
        TargetSpec::OneWay(a, b) => vec![(*a, *b)],
        TargetSpec::Ranks(ranks) => {
            unreachable!("ranks {ranks:?} as target of a fault of links passed the checks")
        }
    }
}

/// Both directions between a group of nodes and the rest.
fn around(group: &[Node], nodes: u32) -> Vec<(Node, Node)> {
    pairs(nodes).filter(|(a, b)| group.contains(a) != group.contains(b)).collect()
}

/// Every direction between two different nodes.
fn pairs(nodes: u32) -> impl Iterator<Item = (Node, Node)> {
    (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b)
}

fn ascending<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}
