//! The command line through the real executable: what a user, a script and an agent meet.
//!
//! - `program`: starts the executable with directories of its own and ends what it started;
//! - `command_line`: everything that needs no agent;
//! - `audit`: what is left on the machine;
//! - `benchmarks`: `bench`, as small as it gets;
//! - `settings`: the catalogue of settings and its checks;
//! - `scripted_agent`: `serve` with an agent that a test plays itself, over the real stream;
//! - `conformance`: the host stand-in against the recordings of real NCCL;
//! - `whole_runs`, `resources`, `interruptions`, `stopping`: real agents, ranks and
//!   faults on the host stand-in.

#![expect(clippy::unwrap_used, reason = "what cannot go on in a test fails it")]

mod audit;
mod benchmarks;
mod command_line;
mod conformance;
mod interruptions;
mod program;
mod resources;
mod scripted_agent;
mod settings;
mod stopping;
mod whole_runs;
