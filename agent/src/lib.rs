//! The node agent: the only crate that touches the kernel.
//!
//! Start here:
//!
//! - [`service`]: the stream to the controller, and [`spool`], which makes observations outlive it;
//! - [`case`]: one case from `Prepare` to `Finish`;
//! - [`inject`]: one file a family of faults, behind one trait; [`journal`], [`lease`] and
//!   [`guard`] see to it that nothing stays behind,
//!   [`stop`] is the kill switch;
//! - [`node`] and [`fabric`]: virtual nodes and the network between them;
//! - [`rank`]: the rank process and its backends;
//! - [`sys`]: the kernel, in small safe pieces. `unsafe`, `/proc`, `/sys` and netlink live there
//!   and in [`rank`] alone.

pub mod audit;
pub mod bench;
pub mod case;
pub mod fabric;
pub mod gpu;
pub mod guard;
pub mod inject;
pub mod inventory;
pub mod journal;
pub mod lease;
pub mod log_pipe;
pub mod node;
pub mod presence;
pub mod probe;
pub mod program;
pub mod rank;
pub mod recover;
pub mod service;
pub mod spool;
pub mod stop;
pub mod sys;
mod wire;
