//! The memory limit of a rank's cgroup, as faults lower it.

use std::io;

use ringbreaker_scenarios::{case::Rank, units::Bytes};

use crate::{
    inject::{Ground, InjectError, RankProcess, ground::Targets, layers::Layers},
    sys::cgroup::{Cgroup, CgroupError},
};

/// A limit of memory, and whether what does not fit may be swapped out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inject) struct Limit {
    pub(super) memory: Option<Bytes>,
    pub(super) swap: bool,
}

/// One rank's limit, for one fault.
pub(super) struct RankLimit {
    node: Targets,
    rank: Rank,
    /// The fault's number within the case.
    id: u32,
    shared: Layers<Rank, Limit>,
}

impl RankLimit {
    /// Changes nothing yet; refused where there are no cgroups.
    pub(super) fn of(
        fault: &'static str,
        rank: &RankProcess,
        ground: &Ground,
        id: u32,
    ) -> Result<RankLimit, InjectError> {
        let node = ground.nodes(fault, &[rank.node])?;
        if let Some(reason) = node.iter().find_map(|n| n.no_cgroups()) {
            return Err(InjectError::not_possible(fault, reason));
        }
        Ok(RankLimit { node, rank: rank.rank, id, shared: ground.memory_limits.clone() })
    }

    pub(super) fn cgroup(&self) -> io::Result<&Cgroup> {
        let cgroup = self.node.iter().find_map(|node| node.cgroup(self.rank));
        cgroup.ok_or_else(|| io::Error::other("the rank has no cgroup"))
    }

    /// Sets the limit to `room` above what is in use, but never above what it is; returns it.
    pub(super) fn lower(&self, room: u64, swap: bool) -> io::Result<Bytes> {
        let cgroup = self.cgroup()?;
        let now = cgroup.memory_limit().map_err(refused)?;
        let wanted = cgroup.memory_usage().map_err(refused)?.0 + room;
        let limit = Bytes(now.map_or(wanted, |limit| limit.0.min(wanted)));
        let before = Limit { memory: now, swap: false };
        self.shared.push(self.rank, self.id, before, Limit { memory: Some(limit), swap });
        cgroup.set_memory_limit(Some(limit), swap).map_err(refused)?;
        Ok(limit)
    }

    /// Sets the limit to what it is without this fault. What is still in force afterwards; none: nothing.
    pub(super) fn lift(&self) -> io::Result<Option<String>> {
        let Some(Limit { memory, swap }) = self.shared.without(&self.rank, self.id) else {
            return Ok(None);
        };
        let cgroup = self.cgroup()?;
        cgroup.set_memory_limit(memory, swap).map_err(refused)?;
        let now = cgroup.memory_limit().map_err(refused)?;
        if now != memory {
            return Ok(Some(format!("a memory limit of {now:?} instead of {memory:?}")));
        }
        self.shared.forget(&self.rank, self.id);
        Ok(None)
    }
}

pub(super) fn refused(error: CgroupError) -> io::Error {
    io::Error::other(error.to_string())
}
