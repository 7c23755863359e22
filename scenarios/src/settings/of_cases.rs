//! What is odd about the settings of planned cases, as sentences.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Oddity, Versions, check_one,
    ladder::{self, Framework, Shadow, Stack},
};
use crate::{case::CasePlan, words::Backend};

/// The situation that needs InfiniBand, which the stand-in has not.
const INFINIBAND: &str = "silent-over-infiniband";

/// Odd values and names, each once. Names that nothing reads are flagged by the agent, which knows the
/// library.
pub fn odd_values(plans: &[CasePlan], versions: Versions) -> Vec<String> {
    let typed: BTreeSet<(&String, &String)> = plans
        .iter()
        .flat_map(|plan| plan.settings.iter().chain(plan.ranks.iter().flat_map(|r| &r.env)))
        .collect();
    typed
        .into_iter()
        .flat_map(|(name, value)| check_one(name, value, versions))
        .filter(|remark| !matches!(remark.oddity, Oddity::Unread | Oddity::Unknown))
        .map(|remark| remark.to_string())
        .collect()
}

/// Timers that somebody set in vain, because they can never fire, each once with the one that fires
/// before.
pub fn lost_timers(plans: &[CasePlan], versions: Versions) -> Vec<String> {
    let distinct: BTreeSet<(bool, &BTreeMap<String, String>)> =
        plans.iter().map(|plan| (plan.backend == Backend::Host, &plan.settings)).collect();
    let stack = Stack { framework: Framework::Rank, torchrun: false, versions };
    let mut lost = Vec::new();
    for (host, settings) in distinct {
        for inversion in ladder::ladder(settings, stack).inversions {
            let relevant = inversion.in_vain && inversion.shadow == Shadow::Never;
            let possible = !(host && inversion.situation == INFINIBAND);
            if relevant && possible && !lost.contains(&inversion.message) {
                lost.push(inversion.message);
            }
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan, scenario::Scenario};

    fn cases(backend: &str, settings: &str) -> Vec<CasePlan> {
        let text = format!(
            "summary = \"odd\"\nbackend = \"{backend}\"\n[cluster]\nnodes = 2\nranks_per_node = 1\n\
             [workload]\ncollective = \"all_reduce\"\nbytes = \"1 KiB\"\niterations = 1\n[settings]\n\
             {settings}"
        );
        let scenario = Scenario::parse("odd", &text).unwrap();
        plan::plan(&scenario, &plan::Options::default()).unwrap()
    }

    #[test]
    fn odd_values_are_told_once_and_unread_names_are_left_to_the_agent() {
        let settings =
            "NCCL_IB_RETRY_CNT = 15\nNCCL_SOCKET_TIMEOUT = 600\nNCCL_TIMEOUT = [\"1s\", \"2s\"]\n";
        let told = odd_values(&cases("nccl", settings), Versions::default());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("NCCL_IB_RETRY_CNT=15: out of range"), "{told:?}");
    }

    #[test]
    fn timers_that_were_set_in_vain_are_told_and_others_are_not() {
        let settings = "op_timeout = [\"2s\", \"1000s\"]\ntcp_retries2 = 8\nNCCL_IB_TIMEOUT = 22\n";
        let on = |backend| lost_timers(&cases(backend, settings), Versions::default());
        let nccl = on("nccl");
        assert_eq!(nccl.len(), 2, "{nccl:#?}");
        let kernel =
            "the kernel's retransmissions of tcp_retries2=8 (102 s or later) can never fire";
        assert!(nccl[0].starts_with(kernel), "{nccl:#?}");
        assert!(nccl[1].starts_with("InfiniBand's retries of NCCL_IB_TIMEOUT=22"), "{nccl:#?}");
        assert_eq!(on("host"), nccl[..1]);
        let usual = lost_timers(&cases("nccl", "NCCL_TIMEOUT = \"2s\"\n"), Versions::default());
        assert_eq!(usual, Vec::<String>::new());
    }
}
