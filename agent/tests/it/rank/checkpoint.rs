//! Ranks that write checkpoints.

use std::path::PathBuf;

use ringbreaker_agent::rank::protocol::{EXIT_AFTER_ERROR, EXIT_FINISHED};
use ringbreaker_scenarios::{
    case::CheckpointPlan,
    event::{ExitStatus, What},
    units::Bytes,
    words::{CheckpointRanks, Detector},
};

use super::job::{Job, Plan};

fn plan(ranks: CheckpointRanks) -> Plan {
    let mut plan = Plan::endless(2);
    plan.workload.checkpoint = Some(CheckpointPlan { every: 5, bytes: Bytes(100_000), ranks });
    plan
}

#[test]
fn every_rank_writes_its_checkpoint_after_every_so_many_iterations() {
    let mut plan = plan(CheckpointRanks::All);
    plan.workload.iterations = 12;
    let mut job = Job::steady(plan);
    for rank in &mut job.ranks {
        for wanted in [4, 9] {
            rank.observes("a checkpoint", |what| match what {
                What::CheckpointWritten { iteration, .. } => (*iteration == wanted).then_some(()),
                _ => None,
            });
        }
        assert_eq!(rank.ends(), ExitStatus::Code(EXIT_FINISHED));
    }
}

#[test]
fn a_rank_whose_checkpoint_fails_says_so_and_ends() {
    let mut plan = plan(CheckpointRanks::First);
    plan.checkpoints = Some(PathBuf::from("/nonexistent"));
    let mut job = Job::steady(plan);
    let found = job.ranks[0].detects();
    assert_eq!(found.detector, Detector::Checkpoint, "{found:?}");
    assert!(found.message.contains("after iteration 4: No such file"), "{found:?}");
    assert_eq!(job.ranks[0].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}
