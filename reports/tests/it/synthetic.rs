//! A run of 1,000 cases: five faults under 20 settings, ten times each, four ranks, full black boxes.

use ringbreaker_reports::history::{CaseHistory, RunHistory};
use ringbreaker_scenarios::{
    event::{EndReason, HealReason},
    words::ErrorHandling,
};

use crate::story::{Story, run};

const MODES: [ErrorHandling; 4] = [
    ErrorHandling::Teardown,
    ErrorHandling::CleanupOnly,
    ErrorHandling::SkipCleanup,
    ErrorHandling::None,
];
const TIMEOUTS: [(&str, u64); 5] =
    [("1s", 1_000), ("2s", 2_000), ("5s", 5_000), ("10s", 10_000), ("15s", 15_000)];
/// Operations that a black box still holds.
const OPS: usize = 256;

/// The run.
pub(crate) fn thousand_cases() -> RunHistory {
    let mut cases = Vec::new();
    for mode in MODES {
        for (name, timeout) in TIMEOUTS {
            for column in ["clean", "kill", "stop", "delay", "stop and continue"] {
                for repetition in 1..=10 {
                    let story = Story::of(column)
                        .repetition(repetition)
                        .swept("NCCL_TIMEOUT", name)
                        .swept("error_handling", mode.word());
                    cases.push(tell(story, column, timeout + u64::from(repetition) * 7, mode));
                }
            }
        }
    }
    run(cases)
}

fn tell(story: Story, column: &str, timeout: u64, mode: ErrorHandling) -> CaseHistory {
    let steady = |story: Story| story.steady().ops(400, &op_times(8_000));
    match column {
        "clean" => steady(story).all_exit(2_500, 0).ended(2_510, EndReason::RanksGone),
        "delay" => steady(story.delay(0, 1))
            .strikes(900, "probe packets took 5 ms longer")
            .all_exit(4_000, 0)
            .healed(4_001, HealReason::CaseEnded)
            .ended(4_002, EndReason::RanksGone),
        "kill" => {
            let story = steady(story.kill(1)).strikes(900, "pid 4001 is a zombie");
            [(0, 30), (2, 4), (3, 640)]
                .into_iter()
                .fold(story.signal(900, 1, 9), |story, (rank, after)| {
                    story
                        .async_error(900 + after, rank)
                        .log(900 + after, rank, "NCCL WARN Connection closed by remote peer")
                        .abort(rank, 901 + after, 1_420 + after)
                        .exit(1_430 + after, rank, 3)
                })
                .ended(2_080, EndReason::RanksGone)
        }
        _ => {
            let story = steady(story.stop(1)).strikes(900, "pid 4001 is in state T");
            let story = [0, 2, 3].into_iter().fold(story, |story, rank| match mode {
                ErrorHandling::None => story.killed_by_harness(20_000, rank),
                _ => story
                    .timed_out(900 + timeout, rank)
                    .abort(rank, 901 + timeout, 1_420 + timeout)
                    .exit(1_430 + timeout, rank, 3),
            });
            story
                .killed_by_harness(20_000, 1)
                .healed(20_001, HealReason::CaseEnded)
                .ended(20_002, EndReason::Cap)
        }
    }
}

fn op_times(micros: u64) -> Vec<u64> {
    (0..OPS as u64).map(|op| micros + op % 13 * 100).collect()
}
