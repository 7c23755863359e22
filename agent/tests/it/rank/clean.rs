//! Ranks that nothing happens to.

use ringbreaker_agent::rank::protocol::EXIT_FINISHED;
use ringbreaker_scenarios::{
    event::{ExitStatus, What},
    units::Bytes,
    words::{Collective, Dtype, Phase},
};

use super::job::{Job, Plan};

#[test]
fn every_collective_and_element_type_is_right_with_one_to_four_ranks() {
    for world in 1..=4 {
        for dtype in Dtype::ALL {
            let mut plan = Plan::endless(world);
            plan.workload.collectives = Collective::ALL.to_vec();
            plan.workload.dtype = *dtype;
            // Smaller than the world, uneven, and more than sockets buffer.
            plan.workload.bytes = vec![Bytes(4), Bytes(4 * 1009), Bytes(512 << 10)];
            plan.workload.warmup = 7;
            plan.workload.iterations = 3 * 7;
            plan.announce = vec![0, 20];
            let mut job = Job::steady(plan);
            for rank in &mut job.ranks {
                assert_eq!(rank.ends(), ExitStatus::Code(EXIT_FINISHED), "{world} ranks, {dtype}");
                let ops = rank.black_box();
                assert_eq!((ops.enqueued, ops.finished, ops.checked_right), (28, 28, 28));
                assert_eq!(ops.checked_wrong, 0);
                assert!(ops.last.iter().all(|op| op.ended.is_some() && op.right == Some(true)));
            }
        }
    }
}

#[test]
fn a_rank_tells_its_phases_announced_iterations_and_transport_in_order() {
    let mut plan = Plan::endless(2);
    plan.workload.iterations = 30;
    plan.announce = vec![3, 29];
    let mut job = Job::steady(plan);
    let rank = &mut job.ranks[1];
    assert_eq!(rank.ends(), ExitStatus::Code(EXIT_FINISHED));
    let observed = rank.observed_within(std::time::Duration::ZERO);
    let phases: Vec<Phase> = observed
        .iter()
        .filter_map(|what| match what {
            What::PhaseEntered { phase } => Some(*phase),
            _ => None,
        })
        .collect();
    let expected = [Phase::BeforeInit, Phase::Init, Phase::FirstOp, Phase::Steady, Phase::Done];
    assert_eq!(phases, expected);
    let iterations: Vec<u32> = observed
        .iter()
        .filter_map(|what| match what {
            What::IterationReached { iteration } => Some(*iteration),
            _ => None,
        })
        .collect();
    assert_eq!(iterations, [3, 29]);
    assert!(observed.iter().any(|what| matches!(what, What::Transport { .. })));
    assert!(observed.iter().any(|what| matches!(what, What::Stack { .. })));
}
