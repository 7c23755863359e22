//! ringbreaker: breaks collective communication on purpose and measures what happens.
//!
//! Start here:
//!
//! - [`cli`]: what can be typed, and the subcommands that need no fleet;
//! - [`run`]: a run from scenario to report; its decisions are pure ([`run::core`]), one event loop
//!   owns everything else ([`run::driver`]);
//! - [`server`]: the gRPC side, one task a session; [`wire`]: a case's plan as a message;
//! - [`cluster`]: where agents come from;
//! - [`mod@bench`]: what is measured, and against what;
//! - [`exit`] and [`error`]: how the program ends, and what it says then.

mod bench;
mod cli;
mod clock;
mod cluster;
mod error;
mod exit;
mod run;
mod server;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
