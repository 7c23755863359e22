//! What is decided about a run before its first case: the backend, the lanes, which cases the nodes
//! cannot carry out. Pure: nodes were probed by their agents.

use std::collections::BTreeMap;

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    case::CasePlan,
    exposure::{Exposure, Transports, exposure},
    words::Backend,
};

/// Cases on the host stand-in mostly wait for timeouts, so many fit side by side.
const HOST_LANES: u32 = 8;

/// A backend and the reason for it, as a sentence.
pub(crate) struct Choice {
    /// What ranks run.
    pub(crate) backend: Backend,
    /// Why.
    pub(crate) why: String,
}

/// The user's wish, else the scenario's, else real NCCL where it can run, else the stand-in. An
/// error says why a wish cannot be fulfilled.
pub(crate) fn backend(
    asked: Option<Backend>,
    scenario: Option<Backend>,
    probe: &v1::NodeProbe,
) -> Result<Choice, String> {
    let missing = nccl_missing(probe);
    let wished = asked.map(|b| (b, "--backend")).or(scenario.map(|b| (b, "the scenario")));
    match (wished, missing) {
        (Some((Backend::Nccl, _)), Some(missing)) => Err(missing),
        (Some((backend, who)), _) => Ok(Choice { backend, why: format!("{who} asks for it") }),
        (None, None) => {
            let gpu = &probe.gpus[0].name;
            let nccl = &probe.nccl[0].version;
            Ok(Choice { backend: Backend::Nccl, why: format!("{gpu} and NCCL {nccl} were found") })
        }
        (None, Some(missing)) => {
            Ok(Choice { backend: Backend::Host, why: format!("{missing}; this is the stand-in") })
        }
    }
}

fn nccl_missing(probe: &v1::NodeProbe) -> Option<String> {
    match (probe.gpus.is_empty(), probe.nccl.is_empty()) {
        (true, _) => Some("no GPU was found".to_owned()),
        (false, true) => Some("no libnccl was found (name one with --nccl)".to_owned()),
        (false, false) => None,
    }
}

/// How many cases run side by side when the user does not say: cases on one GPU disturb each other.
pub(crate) fn lanes(asked: Option<u32>, backend: Backend, cases: usize) -> u32 {
    let useful = u32::try_from(cases).unwrap_or(u32::MAX).max(1);
    let default = match backend {
        Backend::Host => HOST_LANES,
        Backend::Nccl => 1,
    };
    asked.unwrap_or(default).min(useful)
}

/// Which cases cannot be carried out on a node like this, and why.
pub(crate) fn impossible(plans: &[CasePlan], probe: &v1::NodeProbe) -> BTreeMap<u32, String> {
    let unable: BTreeMap<&str, &str> = probe
        .faults
        .iter()
        .filter(|ability| !ability.possible)
        .map(|ability| (ability.kind.as_str(), ability.reason.as_str()))
        .collect();
    let reason = |plan: &CasePlan| {
        let transports = Transports::of_backend(plan.backend);
        plan.faults.iter().find_map(|fault| {
            let name = fault.kind.name();
            if let Exposure::Not(reason) =
                exposure(&fault.kind, fault.when, plan.backend, &transports)
            {
                return Some(format!("{name} cannot be felt: {reason}"));
            }
            let reason = unable.get(name)?;
            Some(format!("{name} is not possible here: {reason}"))
        })
    };
    plans.iter().filter_map(|plan| Some((plan.index, reason(plan)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::sample;

    fn probe(gpu: bool, nccl: bool) -> v1::NodeProbe {
        let gpu = gpu.then(|| v1::Gpu { name: "H200".into(), ..Default::default() });
        let nccl = nccl.then(|| v1::NcclLibrary { version: "2.28.9".into(), ..Default::default() });
        v1::NodeProbe {
            gpus: gpu.into_iter().collect(),
            nccl: nccl.into_iter().collect(),
            ..Default::default()
        }
    }

    #[test]
    fn the_backend_is_the_wish_of_the_user_then_of_the_scenario_then_what_is_there() {
        use Backend::{Host, Nccl};
        let full = probe(true, true);
        for (asked, scenario, probe, want, why) in [
            (Some(Host), Some(Nccl), &full, Host, "--backend asks for it"),
            (None, Some(Host), &full, Host, "the scenario asks for it"),
            (None, None, &full, Nccl, "H200 and NCCL 2.28.9 were found"),
            (None, None, &probe(false, true), Host, "no GPU was found; this is the stand-in"),
        ] {
            let choice = backend(asked, scenario, probe).unwrap();
            assert_eq!((choice.backend, choice.why.as_str()), (want, why));
        }
    }

    #[test]
    fn a_wish_for_nccl_that_cannot_be_fulfilled_is_refused_with_what_is_missing() {
        for (probe, missing) in [(probe(false, true), "no GPU"), (probe(true, false), "--nccl")] {
            let refused = backend(Some(Backend::Nccl), None, &probe).err().unwrap();
            assert!(refused.contains(missing), "{refused}");
        }
    }

    #[test]
    fn there_are_never_more_lanes_than_cases_and_one_on_a_gpu_unless_asked() {
        assert_eq!(lanes(None, Backend::Host, 40), 8);
        assert_eq!(lanes(None, Backend::Host, 3), 3);
        assert_eq!(lanes(None, Backend::Nccl, 40), 1);
        assert_eq!(lanes(Some(4), Backend::Nccl, 40), 4);
        assert_eq!(lanes(Some(4), Backend::Host, 0), 1);
    }

    #[test]
    fn a_case_with_a_fault_that_the_node_cannot_do_is_impossible_for_that_reason() {
        let plans = [sample::plan(0), sample::plan(1)];
        let ability = |kind: &str, possible| v1::FaultAbility {
            kind: kind.into(),
            possible,
            reason: "needs root".into(),
        };
        let mut probe = probe(false, false);
        probe.faults = vec![ability("kill", true), ability("delay", false)];
        assert!(impossible(&plans, &probe).is_empty());
        probe.faults = vec![ability("kill", false)];
        let reasons = impossible(&plans, &probe);
        assert_eq!(reasons.len(), 2);
        assert_eq!(reasons[&0], "kill is not possible here: needs root");
    }

    #[test]
    fn a_case_whose_fault_cannot_be_felt_by_its_backend_is_impossible() {
        let mut plan = sample::plan(0);
        let leave = ringbreaker_scenarios::units::Bytes(0);
        plan.faults[0].kind = ringbreaker_scenarios::fault::FaultKind::HoldGpuMemory(
            ringbreaker_scenarios::fault::HoldGpuMemory { leave },
        );
        let reasons = impossible(&[plan], &probe(true, true));
        assert_eq!(reasons[&0], "hold_gpu_memory cannot be felt: the host stand-in uses no GPU");
    }
}
