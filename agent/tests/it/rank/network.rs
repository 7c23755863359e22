//! Ranks on two nodes whose link is cut or slow.

use std::{sync::Arc, time::Duration};

use ringbreaker_agent::{
    fabric::{Fabric, Rule},
    node::{INTERFACE, VirtualNode},
    rank::protocol::EXIT_AFTER_ERROR,
};
use ringbreaker_scenarios::{
    event::ExitStatus,
    units::Nanos,
    words::{Detector, Phase},
};

use super::job::{Job, Plan};
use crate::ground;

/// Two nodes with a rank on each, and the fabric between them.
struct TwoNodes {
    fabric: Fabric,
    nodes: Arc<Vec<VirtualNode>>,
}

impl TwoNodes {
    fn new() -> Option<TwoNodes> {
        let isolation = ground::isolation()?;
        let (nodes, ports): (Vec<_>, Vec<_>) = (0..2)
            .map(|n| VirtualNode::build(&ground::spec(n, &[n], Default::default()), isolation))
            .map(Result::unwrap)
            .unzip();
        let ports = ports.into_iter().flatten().collect();
        let fabric = Fabric::start(ports, 7).unwrap();
        Some(TwoNodes { fabric, nodes: Arc::new(nodes) })
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::endless(2);
        plan.env.insert("NCCL_SOCKET_IFNAME".into(), INTERFACE.into());
        let nodes = Arc::clone(&self.nodes);
        plan.entry = Some(Box::new(move |rank| nodes[rank as usize].entry(rank)));
        plan
    }

    fn both_ways(&self, rule: Rule) {
        self.fabric.set_rule(0, 1, rule).unwrap();
        self.fabric.set_rule(1, 0, rule).unwrap();
    }
}

fn cut() -> Rule {
    Rule { partition: true, ..Rule::default() }
}

#[test]
fn a_partition_is_silent_until_the_deadline_on_both_sides() {
    let Some(two) = TwoNodes::new() else { return };
    let mut job = Job::steady(two.plan().op_timeout(Duration::from_secs(1)));
    job.reach(20);
    two.both_ways(cut());
    for rank in &mut job.ranks {
        let detection = rank.detects();
        assert_eq!(detection.detector, Detector::RankWatchdog, "{detection:?}");
        assert_eq!((detection.phase, detection.code), (Phase::Steady, None));
        assert_eq!(rank.ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    }
}

#[test]
fn a_partition_shorter_than_the_deadline_costs_time_and_nothing_else() {
    let Some(two) = TwoNodes::new() else { return };
    let mut plan = two.plan();
    plan.workload.iterations = 200;
    let mut job = Job::steady(plan);
    job.reach(20);
    two.both_ways(cut());
    std::thread::sleep(Duration::from_millis(300));
    two.both_ways(Rule::default());
    for rank in &mut job.ranks {
        assert_eq!(rank.ends(), ExitStatus::Code(0));
        assert_eq!(rank.black_box().checked_right, 202);
    }
}

#[test]
fn delay_shows_in_every_operation() {
    let Some(two) = TwoNodes::new() else { return };
    let delay = Nanos::from_millis(5);
    two.both_ways(Rule { delay, ..Rule::default() });
    let mut plan = two.plan();
    plan.workload.iterations = 30;
    let mut job = Job::steady(plan);
    for rank in &mut job.ranks {
        assert_eq!(rank.ends(), ExitStatus::Code(0));
        // A ring of two needs two messages one after the other; the other rank may be half ahead.
        for op in rank.black_box().last {
            assert!(op.ended.unwrap().since(op.enqueued) >= delay, "{op:?}");
        }
    }
}
