//! The end of a case: kill what is left, heal, collect the evidence, take everything down.

use std::{
    fs, io,
    sync::mpsc::RecvTimeoutError,
    thread,
    time::{Duration, Instant},
};

use ringbreaker_scenarios::{
    case::Rank,
    event::{EndReason, HealReason, Owner, What},
    units::Nanos,
};

use super::{
    Assignment,
    environment::{self, Log},
    equipment,
    history::History,
    input::{Answer, Input},
    life::Life,
    logs,
    mps::Mps,
    triggers,
};
use crate::{
    audit::{self, LeftOver},
    gpu::Freeing,
    node::VirtualNode,
    rank::{blackbox, protocol::FromRank},
    sys::clock,
};

/// How long a killed rank may take to vanish. A driver that gives memory back takes a while.
const VANISH_WITHIN: Duration = Duration::from_secs(20);

/// Ends a case, whatever state it is in. Whether its history is whole, for whoever asked and for those
/// who asked meanwhile.
pub(super) fn finish(mut life: Life<'_>, because: EndReason) -> (Result<(), String>, Vec<Answer>) {
    if let Some(faults) = &mut life.faults {
        faults.close_witnesses(life.history);
    }
    life.ranks.kill();
    await_exits(&mut life);
    if let Some(faults) = &mut life.faults {
        faults.feed(triggers::Input::End(heal_reason(because)), life.history);
    }
    // Only now: the context of whoever asks needs memory that a fault may have held.
    let freeing = begin_freeing(&life);
    let Life {
        assignment, surroundings, history, site, ranks, mps, faults, log_pipes, also, ..
    } = life;
    // What is still in them belongs to the logs.
    log_pipes.values().for_each(|pipe| pipe.end());
    for rank in 0..assignment.world() {
        fetch_log(assignment, rank, &site.nodes, history);
        note_ops(assignment, rank, history);
        note_log(assignment, rank, history);
    }
    for (of, what) in audit_nodes(&site.nodes) {
        history.now(What::LeftOver { of, what });
    }
    // Before the nodes: injectors hold them, and a rank that did not vanish is ended once more.
    if let Some(faults) = faults {
        faults.disarm();
    }
    drop(ranks);
    for what in mps.map(Mps::stop).unwrap_or_default() {
        history.now(What::LeftOver { of: Owner::Harness, what });
    }
    // Last of what holds GPU memory was the MPS server.
    if let Some(at) = freeing.and_then(end_freeing) {
        history.note(at, None, What::GpuMemoryFree);
    }
    let cgroups: Vec<_> = site.nodes.iter().flat_map(VirtualNode::cgroup_paths).collect();
    for what in site.remove() {
        history.now(What::LeftOver { of: Owner::Harness, what });
    }
    for (of, what) in audit::harness(&surroundings.journal, &cgroups) {
        history.now(What::LeftOver { of, what });
    }
    if !surroundings.keep {
        clear(assignment);
    }
    history.now(What::Ended { because });
    let whole = match history.lost() {
        None => Ok(()),
        Some(error) => Err(format!("the history of {} has a hole: {error}", assignment.case)),
    };
    (whole, also)
}

/// Waits for the GPU memory of a case that used GPUs, beside what else is to be done.
fn begin_freeing(life: &Life<'_>) -> Option<Freeing> {
    let used = equipment::gpus_by_rank(life.assignment, life.surroundings.gpus);
    let is_used = |gpu: &u32| used.values().any(|other| other == gpu);
    let idle = &life.surroundings.idle_gpus;
    let idle: Vec<_> = idle.iter().copied().filter(|(gpu, _)| is_used(gpu)).collect();
    if idle.is_empty() {
        return None;
    }
    Freeing::begin(&idle)
        .inspect_err(|error| tracing::warn!(%error, "could not watch GPU memory"))
        .ok()
}

/// None: nobody saw it free, which a report shows as not known.
fn end_freeing(freeing: Freeing) -> Option<Nanos> {
    freeing.end().unwrap_or_else(|error| {
        tracing::warn!(%error, "could not watch GPU memory");
        None
    })
}

/// Looks at all nodes at once: entering a namespace waits for the kernel.
fn audit_nodes(nodes: &[VirtualNode]) -> Vec<LeftOver> {
    thread::scope(|scope| {
        let audits: Vec<_> = nodes
            .iter()
            .map(|node| scope.spawn(move || audit::job(std::slice::from_ref(node))))
            .collect();
        let unseen = |_| vec![(Owner::Harness, "an audit of a node failed".to_owned())];
        audits.into_iter().flat_map(|audit| audit.join().unwrap_or_else(unseen)).collect()
    })
}

fn heal_reason(because: EndReason) -> HealReason {
    match because {
        EndReason::AgentLost => HealReason::LeaseExpired,
        EndReason::Interrupted => HealReason::Interrupted,
        EndReason::RanksGone | EndReason::Cap | EndReason::Unexposed | EndReason::Unavailable => {
            HealReason::CaseEnded
        }
    }
}

/// Hears what ranks still say, until all of them are gone.
fn await_exits(life: &mut Life<'_>) {
    let deadline = Instant::now() + VANISH_WITHIN;
    while !life.ranks.all_exited() {
        let left = deadline.saturating_duration_since(Instant::now());
        match life.heard.recv_timeout(left) {
            Ok(Input::Said { rank, said: FromRank::Observed(event), .. }) => {
                let at = life.assignment.agents_time(rank, event.at);
                life.history.note(at, Some(rank), event.what);
            }
            Ok(Input::Exited { rank, at, status }) => {
                let by_harness = life.ranks.exited(rank, status);
                life.history.note(at, Some(rank), What::RankExited { status, by_harness });
            }
            Ok(Input::Finish(_, again)) => life.also.push(again),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let what = format!("ranks that did not vanish within {VANISH_WITHIN:?} of SIGKILL");
                life.history.now(What::LeftOver { of: Owner::Harness, what });
                return;
            }
        }
    }
}

/// What the rank's black box held. A rank that never made one has none.
fn note_ops(assignment: &Assignment, rank: Rank, history: &mut History) {
    let path = environment::blackbox_path(&assignment.directory, rank);
    if !path.exists() {
        return;
    }
    match blackbox::read(&path) {
        Ok(mut summary) => {
            for op in &mut summary.last {
                op.enqueued = assignment.agents_time(rank, op.enqueued);
                op.ended = op.ended.map(|ended| assignment.agents_time(rank, ended));
            }
            history.note(clock::now(), Some(rank), What::Ops(summary));
        }
        Err(error) => {
            let line = format!("ringbreaker could not read the black box of this rank: {error}");
            history.note(clock::now(), Some(rank), What::Log { line });
        }
    }
}

/// NCCL's log from a node's own storage, which vanishes with the node. How long it is tells how much of
/// a small file system it fills.
fn fetch_log(assignment: &Assignment, rank: Rank, nodes: &[VirtualNode], history: &mut History) {
    let node = nodes.get(assignment.node_of(rank) as usize);
    let Some((_, storage)) = node.and_then(VirtualNode::storage) else { return };
    let from = environment::log_path(&storage, rank, Log::Nccl);
    let to = environment::log_path(&assignment.directory, rank, Log::Nccl);
    let line = match fs::copy(from, to) {
        Ok(bytes) => format!("ringbreaker: NCCL's log has {bytes} bytes at NCCL_DEBUG=INFO"),
        Err(error) => format!("ringbreaker: NCCL's log could not be fetched: {error}"),
    };
    history.note(clock::now(), Some(rank), What::Log { line });
}

fn note_log(assignment: &Assignment, rank: Rank, history: &mut History) {
    for log in [Log::Own, Log::Nccl] {
        let path = environment::log_path(&assignment.directory, rank, log);
        match logs::decisive_lines(&path) {
            Ok(lines) => {
                for line in lines {
                    history.note(clock::now(), Some(rank), What::Log { line });
                }
            }
            Err(error) => tracing::warn!(path = %path.display(), %error, "could not read a log"),
        }
    }
}

/// Removes what only the ranks needed; logs stay.
fn clear(assignment: &Assignment) {
    for node in (0..assignment.cluster.nodes).filter(|node| assignment.uses_storage(*node)) {
        let storage = environment::storage_path(&assignment.directory, node);
        if let Err(error) = fs::remove_dir_all(&storage) {
            tracing::warn!(path = %storage.display(), %error, "could not remove a directory");
        }
    }
    for rank in 0..assignment.world() {
        let directory = &assignment.directory;
        for path in
            [environment::spec_path(directory, rank), environment::blackbox_path(directory, rank)]
        {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "could not remove a file");
                }
                _ => {}
            }
        }
    }
}
