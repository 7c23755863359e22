//! What this agent offers to its controller: the probe, in the isolation that it will use.

use std::{io, path::PathBuf};

use ringbreaker_proto::v1;
use ringbreaker_scenarios::event::Isolation;

use super::ServiceError;
use crate::{
    journal::{Journal, Undo},
    node, probe,
};

/// The answer.
pub(super) struct Offer {
    pub(super) probe: v1::NodeProbe,
    pub(super) isolation: Isolation,
}

/// Kinds of fault that only processes carry, so that they need no isolation.
const WITHOUT_ISOLATION: &[&str] =
    &["kill", "stop", "slow_log", "hold_gpu_memory", "fragment_gpu_memory"];

/// Looks at this machine, and journals what that makes there for a moment. `wanted` may be less
/// isolation than it has, not more.
pub(super) fn offer(
    nccl: &[PathBuf],
    wanted: Option<Isolation>,
    journal: &Journal,
) -> Result<Offer, ServiceError> {
    let mut probe = journalled_probe(nccl, journal)
        .map_err(|source| ServiceError::Step { step: "write the journal", source })?;
    let best = serde_json::from_value(serde_json::Value::from(probe.isolation.as_str()))
        .unwrap_or(Isolation::Plain);
    let isolation = wanted.unwrap_or(best);
    if isolation == best {
        return Ok(Offer { probe, isolation });
    }
    if isolation != Isolation::Plain {
        // Which of the two others there is depends on how this process was started.
        let reason = reason_of(&probe);
        return Err(ServiceError::Isolation { wanted: isolation, best, reason });
    }
    probe.isolation = "plain".to_owned();
    for fault in &mut probe.faults {
        if fault.possible && !WITHOUT_ISOLATION.contains(&fault.kind.as_str()) {
            fault.possible = false;
            fault.reason = "this agent was started with --isolation plain".to_owned();
        }
    }
    Ok(Offer { probe, isolation })
}

fn journalled_probe(nccl: &[PathBuf], journal: &Journal) -> io::Result<v1::NodeProbe> {
    let tag = node::tag();
    let paths = probe::planned_cgroups(&tag);
    if paths.is_empty() {
        return Ok(probe::probe_as(&tag, nccl));
    }
    let entry = journal.record(&Undo::RemoveCgroup { paths: paths.clone() })?;
    let probe = probe::probe_as(&tag, nccl);
    if !paths.iter().any(|path| path.exists()) {
        journal.done(entry)?;
    }
    Ok(probe)
}

fn reason_of(probe: &v1::NodeProbe) -> String {
    let impossible = probe.faults.iter().find(|fault| !fault.possible && !fault.reason.is_empty());
    impossible.map_or_else(
        || "this process was started otherwise".to_owned(),
        |fault| fault.reason.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_without_isolation_says_which_faults_that_costs() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("journal")).unwrap();
        let offer = offer(&[], Some(Isolation::Plain), &journal).unwrap();
        assert_eq!(journal.pending(), []);
        assert_eq!((offer.isolation, offer.probe.isolation.as_str()), (Isolation::Plain, "plain"));
        let possible = |kind: &str| {
            offer.probe.faults.iter().find(|f| f.kind == kind).map(|f| (f.possible, &f.reason))
        };
        assert_eq!(possible("kill").map(|(possible, _)| possible), Some(true));
        for kind in ["delay", "fill_shm", "take_port", "limit_memory"] {
            let (possible, reason) = possible(kind).unwrap();
            assert!(!possible && !reason.is_empty(), "{kind}: {reason}");
        }
    }
}
