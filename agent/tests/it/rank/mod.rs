//! Real rank processes on the host backend: a clean run, and every fault that a rank must notice, or
//! must not.

mod checkpoint;
mod clean;
mod creation;
mod death;
mod endings;
mod job;
mod network;
mod stopped;
