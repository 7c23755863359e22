//! From the wire's messages to the model; the only place here that knows both.
//!
//! The service calls it. What it does not understand (an unknown word, a kind of fault of a newer
//! controller, a number out of range) is refused with the place and the reason, never guessed.

mod fault;
mod kinds;

use std::path::{Path, PathBuf};

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    case::{CheckpointPlan, ClusterPlan, NodeLimits, RankPlan, WatchdogPlan, WorkloadPlan},
    event::EndReason,
    settings::Unread,
    units::{Bytes, Nanos},
    words::{Backend, UnknownWord},
};

use crate::{
    case::{Assignment, CaseId},
    stop::Stopped,
};

/// A message that this agent must refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// A part is missing.
    #[error("the message has no {part}; is the controller of another version?")]
    Missing { part: &'static str },
    /// A word outside a vocabulary.
    #[error("{part}: {source}; is the controller of another version?")]
    Word { part: &'static str, source: UnknownWord },
    /// A value that makes no sense.
    #[error("{part} is {given}, which is not {wanted}")]
    Value { part: &'static str, given: String, wanted: &'static str },
    /// A kind of fault, or a trigger, of a newer controller.
    #[error(
        "fault {fault} has a {part} that this agent (version {version}) does not know; start an \
         agent of the controller's version"
    )]
    Unknown { fault: u32, part: &'static str, version: &'static str },
}

impl WireError {
    fn value(part: &'static str, given: impl ToString, wanted: &'static str) -> WireError {
        WireError::Value { part, given: given.to_string(), wanted }
    }
}

/// Parses a word of a vocabulary.
fn word<T: std::str::FromStr<Err = UnknownWord>>(
    part: &'static str,
    text: &str,
) -> Result<T, WireError> {
    text.parse().map_err(|source| WireError::Word { part, source })
}

fn present<T>(part: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::Missing { part })
}

/// Which case a command is about.
pub(crate) fn case_id(case: Option<v1::CaseRef>) -> Result<CaseId, WireError> {
    let v1::CaseRef { run, index, attempt } = present("case", case)?;
    Ok(CaseId { run, index, attempt })
}

/// A case as the wire names it.
pub(crate) fn case_ref(case: &CaseId) -> v1::CaseRef {
    v1::CaseRef { run: case.run.clone(), index: case.index, attempt: case.attempt }
}

/// Why a case is to be finished: the words that events use.
pub(crate) fn end_reason(text: &str) -> Result<EndReason, WireError> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
        WireError::value(
            "the reason to finish",
            format!("{text:?}"),
            "one of ranks-gone, cap, interrupted, agent-lost, unexposed, unavailable",
        )
    })
}

/// The backend of a command.
pub(crate) fn backend(text: &str) -> Result<Backend, WireError> {
    word("the backend", text)
}

/// An optional path: empty means none.
pub(crate) fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// The kill switch as a controller asks for it.
pub(crate) fn stopped(message: v1::KillSwitch) -> Stopped {
    let v1::KillSwitch { since, by, reason } = message;
    Stopped { since, by, reason }
}

/// The kill switch as the controller is told of it.
pub(crate) fn kill_switch(stopped: &Stopped) -> v1::KillSwitch {
    let Stopped { since, by, reason } = stopped.clone();
    v1::KillSwitch { since, by, reason }
}

/// What became of each name of an examination.
pub(crate) fn findings(names: &[String], unread: &[Unread]) -> v1::SettingsExamined {
    let finding = |name: &String| {
        let unread = unread.iter().find(|finding| finding.name == *name);
        v1::SettingFinding {
            name: name.clone(),
            read: unread.is_none(),
            reason: unread.map(|finding| finding.reason.clone()).unwrap_or_default(),
        }
    };
    v1::SettingsExamined { findings: names.iter().map(finding).collect() }
}

/// A whole case.
pub(crate) fn assignment(message: v1::Prepare) -> Result<Assignment, WireError> {
    let v1::Prepare {
        case,
        backend,
        nccl_path,
        nodes,
        ranks_per_node,
        rendezvous_port,
        workload,
        ranks,
        limits,
        faults,
        seed,
        settings,
        directory,
        private_mps,
    } = message;
    let world = nodes.checked_mul(ranks_per_node).filter(|world| *world > 0);
    let world = world.ok_or_else(|| {
        let given = format!("{nodes} nodes of {ranks_per_node} ranks");
        WireError::value("the cluster", given, "at least one rank")
    })?;
    if ranks.len() != world as usize {
        return Err(WireError::value("the list of ranks", ranks.len(), "one entry a rank"));
    }
    if !Path::new(&directory).is_absolute() {
        return Err(WireError::value("the directory", directory, "an absolute path"));
    }
    let faults: Vec<_> = faults.into_iter().map(fault::plan).collect::<Result<_, _>>()?;
    if let Some((at, fault)) = (0..).zip(&faults).find(|(at, fault)| *at != fault.id) {
        let given = format!("{} at position {at}", fault.id);
        return Err(WireError::value("the id of a fault", given, "its position"));
    }
    for fault in &faults {
        fault::check_target(fault, nodes, world)?;
    }
    Ok(Assignment {
        case: case_id(case)?,
        backend: self::backend(&backend)?,
        nccl: path(&nccl_path),
        cluster: ClusterPlan { nodes, ranks_per_node, rendezvous_port: port(rendezvous_port)? },
        workload: self::workload(present("workload", workload)?)?,
        ranks: ranks.into_iter().map(rank).collect::<Result<_, _>>()?,
        limits: self::limits(limits.unwrap_or_default()),
        faults,
        seed,
        settings,
        directory: PathBuf::from(directory),
        private_mps,
    })
}

/// 0 means none.
fn port(number: u32) -> Result<Option<u16>, WireError> {
    let port = u16::try_from(number)
        .map_err(|_| WireError::value("the port", number, "a port number (0 to 65535)"))?;
    Ok((port != 0).then_some(port))
}

fn workload(message: v1::Workload) -> Result<WorkloadPlan, WireError> {
    let v1::Workload {
        collectives,
        dtype,
        bytes,
        iterations,
        warmup,
        interval_ns,
        check,
        checkpoint,
    } = message;
    if collectives.is_empty() || bytes.is_empty() {
        return Err(WireError::Missing { part: "collective or size" });
    }
    Ok(WorkloadPlan {
        collectives: collectives
            .iter()
            .map(|name| word("the collective", name))
            .collect::<Result<_, _>>()?,
        dtype: word("the element type", &dtype)?,
        bytes: bytes.into_iter().map(Bytes).collect(),
        iterations,
        warmup,
        interval: Nanos(interval_ns),
        check,
        checkpoint: checkpoint.map(self::checkpoint).transpose()?,
    })
}

fn checkpoint(message: v1::Checkpoint) -> Result<CheckpointPlan, WireError> {
    let v1::Checkpoint { every, bytes, ranks } = message;
    if every == 0 {
        return Err(WireError::value("every how many operations", every, "at least 1"));
    }
    let ranks = word("who writes a checkpoint", &ranks)?;
    Ok(CheckpointPlan { every, bytes: Bytes(bytes), ranks })
}

fn rank(message: v1::RankSetup) -> Result<RankPlan, WireError> {
    let v1::RankSetup { env, watchdog } = message;
    let v1::Watchdog {
        init_timeout_ns,
        first_op_timeout_ns,
        op_timeout_ns,
        error_handling,
        blocking_wait,
        poll_ns,
        dump_wait_ns,
    } = present("watchdog", watchdog)?;
    if poll_ns == 0 {
        return Err(WireError::value("watchdog_poll", "0", "longer than nothing"));
    }
    Ok(RankPlan {
        env: env.into_iter().collect(),
        watchdog: WatchdogPlan {
            init_timeout: init_timeout_ns.map(Nanos),
            first_op_timeout: first_op_timeout_ns.map(Nanos),
            op_timeout: op_timeout_ns.map(Nanos),
            error_handling: word("error_handling", &error_handling)?,
            blocking_wait,
            poll: Nanos(poll_ns),
            dump_wait: Nanos(dump_wait_ns),
        },
    })
}

fn limits(message: v1::Limits) -> NodeLimits {
    let v1::Limits { shm_size, memory_limit, nofile, sysctls } = message;
    NodeLimits {
        shm_size: shm_size.map(Bytes),
        memory_limit: memory_limit.map(Bytes),
        nofile,
        sysctls: sysctls.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
