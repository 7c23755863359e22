//! A small plan for unit tests.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::{
        CasePlan, ClusterPlan, Expectation, FaultPlan, NodeLimits, RankPlan, Target, Trigger,
        WorkloadPlan,
    },
    fault::{FaultKind, Kill, Signal},
    units::{Bytes, Nanos},
    words::{Backend, Collective, Dtype},
};

/// Two ranks on two nodes; rank 1 is killed at iteration 3.
pub(crate) fn plan(index: u32) -> CasePlan {
    CasePlan {
        index,
        scenario: "sample".to_owned(),
        column: "kill".to_owned(),
        row: BTreeMap::from([("NCCL_TIMEOUT".to_owned(), "2s".to_owned())]),
        repetition: 1,
        seed: 7,
        backend: Backend::Host,
        cluster: ClusterPlan { nodes: 2, ranks_per_node: 1, rendezvous_port: None },
        workload: WorkloadPlan {
            collectives: vec![Collective::AllReduce],
            dtype: Dtype::F32,
            bytes: vec![Bytes(1 << 10)],
            iterations: 10,
            warmup: 2,
            interval: Nanos::from_millis(10),
            check: true,
            checkpoint: None,
        },
        settings: BTreeMap::from([("NCCL_TIMEOUT".to_owned(), "2s".to_owned())]),
        ranks: vec![RankPlan::default(), RankPlan::default()],
        limits: NodeLimits::default(),
        faults: vec![FaultPlan {
            id: 0,
            label: "kill rank 1".to_owned(),
            kind: FaultKind::Kill(Kill { signal: Signal::Kill }),
            when: Trigger::Iteration(3),
            target: Target { ranks: vec![1], ..Target::default() },
            lasts: None,
            lease: Nanos::from_secs(10),
        }],
        coordinated_abort: false,
        cap: Nanos::from_secs(20),
        expect: Expectation::default(),
    }
}
