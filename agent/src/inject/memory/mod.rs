//! Faults of memory, each by a helper process that takes it: in a rank's cgroup, and on the GPU.

mod press;
mod rank;

pub use self::press::press;
pub(super) use self::rank::RankMemory;
