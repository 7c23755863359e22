//! The command line: parses, dispatches, and turns any failure into a message and an exit code.
//!
//! - [`args`]: what can be typed;
//! - [`catalogue`]: scenarios, without running them; [`runs`]: stored runs, offline;
//! - [`node`]: what runs on nodes (agent, rank, guard, recover, probe);
//! - [`stop`]: the kill switch; [`audit`]: what is left on this machine;
//! - [`settings`]: what each setting does and what holds here;
//! - [`documents`]: a run's report in each format.

pub(crate) mod args;
mod audit;
mod catalogue;
pub(crate) mod documents;
mod node;
mod runs;
mod settings;
mod stop;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::{
    bench,
    error::{Error, Internal},
    exit,
    run::{
        self,
        config::{self, Agents},
        header,
        opening::Beginning,
    },
};
use args::{Cli, Command, RunArgs, ServeArgs};

/// The whole program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    match dispatch(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            documents::tell(&error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: Command) -> Result<u8, Error> {
    match command {
        Command::Run(args) => start(args),
        Command::Serve(args) => serve(args),
        Command::List { format } => catalogue::list(format),
        Command::Show(args) => catalogue::show(&args),
        Command::Check { files, format } => catalogue::check(&files, format),
        Command::Settings(args) => settings::main(&args),
        Command::Schema => catalogue::schema(),
        Command::Report(args) => runs::report(args),
        Command::Runs { dir, format } => runs::list(&dir.dir, format),
        Command::Agent(args) => node::agent(args),
        Command::Rank { spec } => Ok(node::rank(&spec)),
        Command::Guard { journal } => Ok(node::guard(&journal)),
        Command::PressMemory => Ok(node::press_memory()),
        Command::PressPageCache => Ok(node::press_page_cache()),
        Command::HoldGpuMemory => Ok(node::hold_gpu_memory()),
        Command::ProbeGpu { nccl } => Ok(node::probe_gpu(&nccl)),
        Command::AwaitGpuMemory { wanted } => Ok(node::await_gpu_memory(&wanted)),
        Command::Stop(args) => stop::main(args),
        Command::Audit { state, format } => audit::main(state, format),
        Command::Recover(state) => node::recover(state),
        Command::Bench(args) => bench::main(&args),
        Command::Probe { nccl, format } => node::probe(&nccl.nccl, format),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "ringbreaker",
                &mut std::io::stdout(),
            );
            Ok(exit::PASS)
        }
    }
}

fn start(args: RunArgs) -> Result<u8, Error> {
    let agents = Agents::Children { lanes: args.lanes };
    let beginning = match (args.resume, args.scenario) {
        (Some(run), _) => Beginning::Stored { run },
        (None, scenario) => fresh(&scenario.unwrap_or_default(), args.plan)?,
    };
    let manner = config::manner(args.manner, agents)?;
    runtime()?.block_on(run::start(beginning, manner))
}

fn serve(args: ServeArgs) -> Result<u8, Error> {
    let agents = Agents::Guests { listen: args.listen, wanted: args.agents };
    let beginning = fresh(&args.scenario, args.plan)?;
    let manner = config::manner(args.manner, agents)?;
    runtime()?.block_on(run::start(beginning, manner))
}

fn fresh(scenario: &str, plan: args::PlanArgs) -> Result<Beginning, Error> {
    let scenario = Box::new(config::scenario(scenario, &plan)?);
    Ok(Beginning::Fresh { id: header::run_id(jiff::Timestamp::now()), scenario, plan })
}

/// Processes that must enter namespaces first make theirs late.
fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Internal::Io { doing: "start the runtime", source }.into())
}

/// Logs are for people who look for a fault in ringbreaker itself: `RINGBREAKER_LOG=debug`.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RINGBREAKER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .init();
}
