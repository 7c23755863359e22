//! The kernel in small safe pieces.
//!
//! Everything here is a thin, safe wrapper around system calls, `/proc`, `/sys` and netlink; this is,
//! with the rank's backends, the only home of `unsafe`. Nothing here knows about cases or faults.
//!
//! - [`clock`], [`thread`]: CLOCK_MONOTONIC and the scheduling of one thread;
//! - [`process`], [`procfs`], [`signal`]: children that die with the agent, and who is who;
//!   [`census`]: everybody on the machine;
//! - [`namespace`], [`timens`], [`mount`], [`userns`], [`cgroup`]: what a virtual node is made of;
//! - [`tun`], [`interface`], [`netlink`], [`sysctl`]: its network;
//! - [`filesystem`], [`fanotify`], [`fifo`]: how full a file system is, and who opens files there; [`oom`]: whom the OOM killer takes; [`sockets`],
//!   [`reuseport`]: who listens, and who gets the connections.

pub mod census;
pub mod cgroup;
pub mod clock;
pub mod fanotify;
pub mod fifo;
pub mod filesystem;
pub mod interface;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod oom;
pub mod process;
pub mod procfs;
pub mod reuseport;
pub mod signal;
pub mod sockets;
pub mod sysctl;
pub mod thread;
pub mod timens;
pub mod tun;
pub mod userns;
