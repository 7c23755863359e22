//! Faults of memory, each by a helper process that takes it: in a rank's cgroup, and on the GPU.

mod gpu;
mod press;
mod rank;

pub(super) use self::{gpu::GpuMemory, rank::RankMemory};
pub use self::{gpu::hold_gpu, press::press};
