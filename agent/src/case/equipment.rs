//! What a backend needs of this machine.

use std::{collections::BTreeMap, path::PathBuf};

use ringbreaker_scenarios::{case::Rank, event::What, words::Backend};

use super::{Assignment, CaseError, Surroundings, history::History, settings};

/// What ranks run on, beside the plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Equipment {
    /// The copy of libnccl; none for the host backend.
    pub(super) nccl: Option<PathBuf>,
    /// How many GPUs there are.
    pub(super) gpus: u32,
    /// What ranks need in their environment to use it.
    pub(super) env: BTreeMap<String, String>,
}

impl Equipment {
    /// What this case's backend needs, if it is here.
    pub(super) fn of(
        assignment: &Assignment,
        surroundings: &Surroundings,
    ) -> Result<Equipment, CaseError> {
        if assignment.backend == Backend::Host {
            return Ok(Equipment::default());
        }
        let lacking = |what: &str| CaseError::Lacking(what.to_owned());
        let gpus = surroundings.gpus;
        if gpus == 0 {
            let what = "the nccl backend needs a GPU, and none was found; use --backend host";
            return Err(lacking(what));
        }
        let nccl = assignment.nccl.clone().or_else(|| surroundings.nccl.clone());
        let nccl = nccl.ok_or_else(|| {
            lacking("no libnccl was found; name one with --nccl PATH, or use --backend host")
        })?;
        Ok(Equipment { nccl: Some(nccl), gpus, env: BTreeMap::new() })
    }

    /// Says which settings of the case nothing reads.
    pub(super) fn note_unread(
        &self,
        assignment: &Assignment,
        history: &mut History,
    ) -> Result<(), CaseError> {
        let unread =
            settings::unread(assignment.backend, &assignment.settings, self.nccl.as_deref())
                .map_err(CaseError::step("read libnccl"))?;
        for settings::Unread { name, reason } in unread {
            history.now(What::SettingUnread { name, reason });
        }
        Ok(())
    }
}

/// The GPU that each rank is given, in turn over those there are; none on the host backend.
pub(super) fn gpus_by_rank(assignment: &Assignment, gpus: u32) -> BTreeMap<Rank, u32> {
    match assignment.backend {
        Backend::Host => BTreeMap::new(),
        Backend::Nccl => (0..assignment.world()).map(|rank| (rank, rank % gpus.max(1))).collect(),
    }
}
