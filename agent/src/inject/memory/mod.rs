//! Faults of memory, each by a helper process that takes it: in a rank's cgroup, and on the GPU.

mod cache;
mod fragment;
mod gpu;
mod holder;
mod limit;
mod press;
mod rank;
mod reader;

pub(super) use self::{
    cache::PageCache, fragment::FragmentedGpu, gpu::GpuMemory, limit::Limit, rank::RankMemory,
};
pub use self::{holder::hold_gpu, press::press, reader::press_page_cache};
