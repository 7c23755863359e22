//! Faults of /dev/shm alone: its size, its number of files, and what an earlier run has left there. What it
//! shares with other file systems of a node is in [`super::volume`].

mod inodes;
mod limit;
mod stale;

pub use self::stale::is_stale;
pub(super) use self::{inodes::NoInodes, limit::Limited, stale::Stale};
