//! The command line: parses, dispatches, and turns any failure into a message and an exit code.

mod args;

use std::process::ExitCode;

use clap::Parser as _;

pub(crate) fn main() -> ExitCode {
    let _cli = args::Cli::parse();
    ExitCode::SUCCESS
}
