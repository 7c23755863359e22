//! From the model to the wire's messages, and the few words that come back.
//!
//! The only place in the controller that knows both. Exhaustive by construction: a new field of a
//! plan or a new kind of fault does not compile until it is sent.

mod kinds;

use std::{collections::BTreeMap, path::Path};

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    case::{
        CasePlan, CheckpointPlan, ClusterPlan, FaultPlan, NodeLimits, RankPlan, Target, Trigger,
        WatchdogPlan, WorkloadPlan,
    },
    event::EndReason,
    fault::FaultKind,
};

use crate::run::lane::{CaseRef, Order};

/// What a `Prepare` needs beside the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    /// Id of the run.
    pub(crate) run: &'a str,
    /// The copy of libnccl to use; none: the agent's own choice.
    pub(crate) nccl: Option<&'a Path>,
    /// Where logs and black boxes go, absolute.
    pub(crate) directory: &'a Path,
    /// Ranks share the GPU through an MPS server of their own.
    pub(crate) private_mps: bool,
}

/// A case by its number.
pub(crate) fn case_ref(run: &str, case: CaseRef) -> v1::CaseRef {
    v1::CaseRef { run: run.to_owned(), index: case.index, attempt: case.attempt }
}

/// An order as a message; `plan` is the plan of the order's case.
pub(crate) fn action(order: &Order, plan: &CasePlan, ground: Ground<'_>) -> v1::command::Action {
    let case = Some(case_ref(ground.run, order.case()));
    match order {
        Order::Prepare(_) => v1::command::Action::Prepare(prepare(case, plan, ground)),
        Order::Begin(_) => v1::command::Action::Begin(v1::Begin { case }),
        Order::AbortRanks(_) => v1::command::Action::AbortRanks(v1::AbortRanks { case }),
        Order::Finish(_, why) => {
            let because = because(*why).to_owned();
            v1::command::Action::Finish(v1::Finish { case, because })
        }
    }
}

/// Why a case is finished, in the wire's words.
pub(crate) fn because(why: EndReason) -> &'static str {
    match why {
        EndReason::RanksGone => "ranks-gone",
        EndReason::Cap => "cap",
        EndReason::Interrupted => "interrupted",
        EndReason::AgentLost => "agent-lost",
        EndReason::Unexposed => "unexposed",
        EndReason::Unavailable => "unavailable",
    }
}

fn prepare(case: Option<v1::CaseRef>, plan: &CasePlan, ground: Ground<'_>) -> v1::Prepare {
    // What reports alone need (names, rows, expectations, the cap) stays here.
    let CasePlan {
        index: _,
        scenario: _,
        column: _,
        row: _,
        repetition: _,
        seed,
        backend,
        cluster: ClusterPlan { nodes, ranks_per_node, rendezvous_port },
        workload,
        settings,
        ranks,
        limits,
        faults,
        coordinated_abort: _,
        cap: _,
        expect: _,
    } = plan;
    v1::Prepare {
        case,
        backend: backend.word().to_owned(),
        nccl_path: ground.nccl.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
        nodes: *nodes,
        ranks_per_node: *ranks_per_node,
        rendezvous_port: rendezvous_port.map_or(0, u32::from),
        workload: Some(self::workload(workload)),
        ranks: ranks.iter().map(rank).collect(),
        limits: Some(self::limits(limits)),
        faults: faults.iter().map(fault).collect(),
        seed: *seed,
        settings: settings.keys().cloned().collect(),
        directory: ground.directory.to_string_lossy().into_owned(),
        private_mps: ground.private_mps,
    }
}

fn workload(plan: &WorkloadPlan) -> v1::Workload {
    let WorkloadPlan { collectives, dtype, bytes, iterations, warmup, interval, check, checkpoint } =
        plan;
    v1::Workload {
        collectives: collectives.iter().map(|c| c.word().to_owned()).collect(),
        dtype: dtype.word().to_owned(),
        bytes: bytes.iter().map(|b| b.0).collect(),
        iterations: *iterations,
        warmup: *warmup,
        interval_ns: interval.0,
        check: *check,
        checkpoint: checkpoint.as_ref().map(|plan| {
            let CheckpointPlan { every, bytes, ranks } = plan;
            v1::Checkpoint { every: *every, bytes: bytes.0, ranks: ranks.word().to_owned() }
        }),
    }
}

fn rank(plan: &RankPlan) -> v1::RankSetup {
    let RankPlan { env, watchdog } = plan;
    v1::RankSetup { env: unordered(env), watchdog: Some(self::watchdog(watchdog)) }
}

fn watchdog(plan: &WatchdogPlan) -> v1::Watchdog {
    let WatchdogPlan {
        init_timeout,
        first_op_timeout,
        op_timeout,
        error_handling,
        blocking_wait,
        poll,
        dump_wait,
    } = plan;
    v1::Watchdog {
        init_timeout_ns: init_timeout.map(|n| n.0),
        first_op_timeout_ns: first_op_timeout.map(|n| n.0),
        op_timeout_ns: op_timeout.map(|n| n.0),
        error_handling: error_handling.word().to_owned(),
        blocking_wait: *blocking_wait,
        poll_ns: poll.0,
        dump_wait_ns: dump_wait.0,
    }
}

fn limits(plan: &NodeLimits) -> v1::Limits {
    let NodeLimits { shm_size, memory_limit, nofile, sysctls } = plan;
    v1::Limits {
        shm_size: shm_size.map(|b| b.0),
        memory_limit: memory_limit.map(|b| b.0),
        nofile: *nofile,
        sysctls: unordered(sysctls),
    }
}

fn fault(plan: &FaultPlan) -> v1::Fault {
    let FaultPlan { id, label, kind, when, target, lasts, lease } = plan;
    v1::Fault {
        id: *id,
        label: label.clone(),
        trigger: Some(trigger(*when)),
        target: Some(self::target(target)),
        lasts_ns: lasts.map(|n| n.0),
        lease_ns: lease.0,
        kind: Some(self::kind(kind)),
    }
}

fn trigger(when: Trigger) -> v1::Trigger {
    let when = match when {
        Trigger::After(wait) => v1::trigger::When::AfterNs(wait.0),
        Trigger::Iteration(iteration) => v1::trigger::When::Iteration(iteration),
        Trigger::Phase(phase) => v1::trigger::When::Phase(phase.word().to_owned()),
    };
    v1::Trigger { when: Some(when) }
}

fn target(target: &Target) -> v1::Target {
    let Target { ranks, nodes, directions } = target;
    let direction = |&(from, to): &(u32, u32)| v1::Direction { from, to };
    v1::Target {
        ranks: ranks.clone(),
        nodes: nodes.clone(),
        directions: directions.iter().map(direction).collect(),
    }
}

fn kind(kind: &FaultKind) -> v1::fault::Kind {
    use ringbreaker_scenarios::fault::{
        Delay, Kill, Loss, Partition, Rate, ReadOnlyShm, ReadOnlyStorage, Signal, Stop,
    };
    use v1::fault::Kind;
    match kind {
        FaultKind::Kill(Kill { signal }) => {
            let word = match signal {
                Signal::Kill => "KILL",
                Signal::Term => "TERM",
            };
            Kind::Kill(v1::Kill { signal: word.to_owned() })
        }
        FaultKind::Stop(Stop {}) => Kind::Stop(v1::Stop {}),
        FaultKind::TakePort(fault) => Kind::TakePort(kinds::take_port(fault)),
        FaultKind::MuteListener(fault) => Kind::MuteListener(kinds::mute_listener(fault)),
        FaultKind::ExhaustPorts(fault) => Kind::ExhaustPorts(kinds::exhaust_ports(fault)),
        FaultKind::NarrowPorts(fault) => Kind::NarrowPorts(kinds::narrow_ports(fault)),
        FaultKind::LimitShm(fault) => Kind::LimitShm(kinds::limit_shm(fault)),
        FaultKind::FillShm(fault) => Kind::FillShm(kinds::fill_shm(fault)),
        FaultKind::ExhaustShmInodes(fault) => Kind::ExhaustShmInodes(kinds::exhaust_inodes(fault)),
        FaultKind::ReadOnlyShm(ReadOnlyShm {}) => Kind::ReadOnlyShm(v1::ReadOnlyShm {}),
        FaultKind::StaleShm(fault) => Kind::StaleShm(kinds::stale_shm(fault)),
        FaultKind::LimitMemory(fault) => Kind::LimitMemory(kinds::limit_memory(fault)),
        FaultKind::PressPageCache(fault) => Kind::PressPageCache(kinds::page_cache(fault)),
        FaultKind::HoldGpuMemory(fault) => Kind::HoldGpuMemory(kinds::hold_gpu_memory(fault)),
        FaultKind::FragmentGpuMemory(fault) => Kind::FragmentGpuMemory(kinds::fragment(fault)),
        FaultKind::ShiftClock(fault) => Kind::ShiftClock(kinds::shift_clock(fault)),
        FaultKind::FillStorage(fault) => Kind::FillStorage(kinds::fill_storage(fault)),
        FaultKind::ReadOnlyStorage(ReadOnlyStorage {}) => {
            Kind::ReadOnlyStorage(v1::ReadOnlyStorage {})
        }
        FaultKind::SlowStorage(fault) => Kind::SlowStorage(kinds::slow_storage(fault)),
        FaultKind::SlowLog(fault) => Kind::SlowLog(kinds::slow_log(fault)),
        FaultKind::Delay(Delay { by, jitter }) => {
            Kind::Delay(v1::Delay { by_ns: by.0, jitter_ns: jitter.0 })
        }
        FaultKind::Loss(Loss { percent }) => Kind::Loss(v1::Loss { percent: *percent }),
        FaultKind::Rate(Rate { mbit }) => Kind::Rate(v1::Rate { mbit: *mbit }),
        FaultKind::Partition(Partition {}) => Kind::Partition(v1::Partition {}),
    }
}

/// Maps are unordered on the wire.
fn unordered(map: &BTreeMap<String, String>) -> std::collections::HashMap<String, String> {
    map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
