//! Every kind of fault: it bites (a measured lower bound), it heals, and it heals when the agent is
//! killed. GPU memory needs a GPU and is printed as skipped without one.

mod audit;
mod clock;
mod crash;
mod documented;
mod guard;
mod memory;
mod network;
mod overlap;
mod port;
mod process;
pub(crate) mod rig;
mod shm;
mod storage;
