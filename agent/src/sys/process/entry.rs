//! What a child does between fork and the beginning of its program.

use std::{os::fd::OwnedFd, path::PathBuf, sync::Arc};

use crate::sys::namespace::Namespaces;

/// Where a child goes before its program begins. Made by a virtual node for one of its ranks.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Mount and network namespace to enter.
    pub namespaces: Option<Arc<Namespaces>>,
    /// Time namespace to enter.
    pub time: Option<Arc<OwnedFd>>,
    /// `cgroup.procs` files of the cgroup to join, one a hierarchy.
    pub cgroup_procs: Vec<PathBuf>,
    /// Soft and hard limit of open descriptors.
    pub nofile: Option<u64>,
}
