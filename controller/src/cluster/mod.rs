//! Where agents come from: children of ours ([`local`], for `run`), or processes that the user
//! starts ([`Cluster::Remote`], for `serve`).

pub(crate) mod local;

use local::Local;

/// Where the agents of a run come from.
pub(crate) enum Cluster {
    /// We start one child a lane, and another when one is lost.
    Local(Local),
    /// Users start them; whoever dials in is a lane.
    Remote,
}

impl Cluster {
    /// The lane that a registering process serves; none: it is not ours to use.
    pub(crate) fn admits(&self, pid: u32) -> bool {
        match self {
            Cluster::Local(local) => local.lane_of(pid).is_some(),
            Cluster::Remote => true,
        }
    }
}
