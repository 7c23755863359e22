//! Which faults of a case cannot be felt, now that its ranks are connected.

use ringbreaker_scenarios::{
    case::FaultPlan,
    exposure::{Exposure, Transports, exposure},
    words::Backend,
};

use super::triggers::{FaultId, before_steady};

/// The faults that wait for the steady state and cannot be felt in it, with the reason. What was meant
/// for earlier has been injected by then.
pub(super) fn unexposed(
    backend: Backend,
    faults: &[FaultPlan],
    transports: &Transports,
) -> Vec<(FaultId, String)> {
    let waiting = faults.iter().filter(|fault| !before_steady(fault.when));
    let answer = |fault: &FaultPlan| match exposure(&fault.kind, fault.when, backend, transports) {
        Exposure::Not(reason) => Some((fault.id, reason)),
        Exposure::Exposed | Exposure::Unknown => None,
    };
    waiting.filter_map(answer).collect()
}

#[cfg(test)]
mod tests {
    use ringbreaker_scenarios::{
        case::{Target, Trigger},
        fault::{FaultKind, Partition, Stop},
        units::Nanos,
        words::Phase,
    };

    use super::*;

    fn fault(id: u32, kind: FaultKind, when: Trigger) -> FaultPlan {
        FaultPlan {
            id,
            label: kind.name().to_owned(),
            kind,
            when,
            target: Target::default(),
            lasts: None,
            lease: Nanos(1),
        }
    }

    #[test]
    fn only_what_waits_and_cannot_be_felt_is_withdrawn() {
        let partition = || FaultKind::Partition(Partition {});
        let faults = [
            fault(0, partition(), Trigger::Phase(Phase::Init)),
            fault(1, partition(), Trigger::Iteration(5)),
            fault(2, FaultKind::Stop(Stop {}), Trigger::Iteration(5)),
        ];
        let withdrawn = |told: &str| -> Vec<FaultId> {
            let transports = [told].into_iter().collect();
            let found = unexposed(Backend::Nccl, &faults, &transports);
            found.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(withdrawn("P2P + SHM"), [1]);
        assert!(withdrawn("NET/Socket").is_empty());
        assert!(withdrawn("").is_empty());
    }
}
