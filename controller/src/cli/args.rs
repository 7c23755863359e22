//! What can be typed. Nothing here is ready to be used: `cli` and `run::config` make ready values of
//! it, in one place each.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ringbreaker_scenarios::{units::Nanos, words::Backend};

use super::settings::{self, SettingsArgs};
use crate::{bench::BenchArgs, exit};

const EXAMPLES: &str = "\
Examples:
  ringbreaker run quick                        five kinds of fault, no GPU needed
  ringbreaker run quick --backend nccl         the same against real NCCL
  ringbreaker show quick                       the cases and every fault, before anything happens
  ringbreaker run mine.toml --set NCCL_TIMEOUT=5s --only kill
  ringbreaker report --format html -o report.html
  ringbreaker run --resume 20261201-051530-3fa2";

/// Breaks collective communication on purpose and measures what happens: who noticed, when, how
/// the job ended, what it left behind.
#[derive(Debug, Parser)]
#[command(
    name = "ringbreaker",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::help()),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario on this machine and report what every case did
    #[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n\n{}", exit::help()))]
    Run(RunArgs),
    /// List the scenarios that ship with ringbreaker
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Print the cases of a scenario and its whole fault schedule, without running anything
    Show(ShowArgs),
    /// Check scenario files: every problem at once, with file, line and column
    Check {
        /// Scenario files (or names from the library)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Explain timeout, retry and error-handling settings: what each does and who reads it
    #[command(after_help = settings::EXAMPLES)]
    Settings(SettingsArgs),
    /// Report on a stored run, offline
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// List the stored runs
    Runs {
        #[command(flatten)]
        dir: RunsDir,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Run a scenario on agents that you start yourself (loopback only for now)
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Be an agent: host virtual nodes, ranks and faults for a controller
    Agent(AgentArgs),
    /// Stop every injection on this machine, heal, and allow nothing new until it is released
    #[command(after_help = STOP_EXAMPLES)]
    Stop(StopArgs),
    /// Tell what of ours, or of dead NCCL jobs, is left on this machine; changes nothing
    #[command(after_help = AUDIT_NOTES)]
    Audit {
        #[command(flatten)]
        state: StateDir,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Undo by hand what a dead agent left behind, such as after a reboot
    Recover(StateDir),
    /// Measure collectives by size, as nccl-tests does; subcommands measure ringbreaker itself
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Print what this machine is, which faults are possible on it, and why others are not
    #[command(visible_alias = "doctor")]
    Probe {
        #[command(flatten)]
        nccl: NcclPaths,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Print the JSON Schema of scenario files, for editors
    Schema,
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// A rank process (started by agents)
    #[command(hide = true)]
    Rank {
        #[arg(long)]
        spec: PathBuf,
    },
    /// Takes memory in a rank's cgroup (started by agents)
    #[command(hide = true)]
    PressMemory,
    /// Reads a file without end in a rank's cgroup (started by agents)
    #[command(hide = true)]
    PressPageCache,
    /// Holds GPU memory (started by agents)
    #[command(hide = true)]
    HoldGpuMemory,
    /// Looks for GPUs and libnccl, prints what it finds as JSON (started by agents)
    #[command(hide = true)]
    ProbeGpu { nccl: Vec<PathBuf> },
    /// Waits until GPU memory is free, prints when (started by agents)
    #[command(hide = true)]
    AwaitGpuMemory { wanted: Vec<String> },
    /// The process that heals when its agent dies (started by agents)
    #[command(hide = true)]
    Guard {
        #[arg(long)]
        journal: PathBuf,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  ringbreaker run quick
  ringbreaker run quick --only kill            cases whose fault or settings contain `kill`
  ringbreaker run quick --only case=12         one case, with its own seed
  ringbreaker run mine.toml --set NCCL_TIMEOUT=2s --repeat 5
  ringbreaker run quick --backend nccl --nccl /opt/nccl/lib/libnccl.so.2
  ringbreaker run --resume 20261201-051530-3fa2

Ctrl-C ends the cases in flight, heals every fault, stores what is done and prints how to resume.";

const REPORT_EXAMPLES: &str = "\
Examples:
  ringbreaker report                           the latest run, in the terminal
  ringbreaker report 20261201-051530-3fa2 --format html -o report.html
  ringbreaker report --format junit -o junit.xml";

const SERVE_EXAMPLES: &str = "\
Example, on three terminals:
  ringbreaker serve quick --listen 127.0.0.1:7447 --agents 2
  ringbreaker agent --controller 127.0.0.1:7447
  ringbreaker agent --controller 127.0.0.1:7447";

const STOP_EXAMPLES: &str = "\
Examples:
  ringbreaker stop --reason 'the training team needs the node'
  ringbreaker stop --controller 127.0.0.1:7447   and agents elsewhere, through their controller
  ringbreaker stop --release                     agents may inject again

Works without any controller: agents watch a file in their state directory. Runs in progress end with
code 14; `ringbreaker run --resume` finishes them after the release.";

const AUDIT_NOTES: &str = "\
Looks for journals of dead agents, files nccl-* in /dev/shm that no process has open, helper processes
and virtual nodes without an agent, cgroups and mounts of dead agents, and processes that hold a GPU
although their parent is gone. Ends with 0 when nothing is left and with 10 when something is. What
could not be looked at is said. As root it sees the processes of every user.";

const BENCH_EXAMPLES: &str = "\
Examples:
  ringbreaker bench                            all_reduce from 1 KiB to 16 MiB on two ranks
  ringbreaker bench --collective all_gather --ranks 4 --from '1 MiB' --to '64 MiB'
  ringbreaker bench --collective all           all seven operations, one table each
  ringbreaker bench recorder --backend nccl    what the black box and the checks cost
  ringbreaker bench fabric                     the virtual network against a veth pair";

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A scenario of the library (`ringbreaker list`) or a scenario file
    #[arg(value_name = "NAME|FILE", required_unless_present = "resume")]
    pub(crate) scenario: Option<String>,
    /// Finish the pending cases of a stored run, with its own plan, seed and settings
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "scenario", "backend", "seed", "repeat", "only", "set", "nccl", "mps",
    ])]
    pub(crate) resume: Option<String>,
    /// How many cases run side by side [default: 8 at most on the host stand-in, 1 on a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) lanes: Option<u32>,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) manner: MannerArgs,
}

/// What decides the plan of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanArgs {
    /// What ranks run: `host` or `nccl` [default: the scenario's, else nccl where there are a GPU
    /// and libnccl, else host]
    #[arg(long)]
    pub(crate) backend: Option<Backend>,
    /// Seed of every draw: the same scenario and seed give the same plan
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Run every case this many times; reports then show percentiles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// Keep only cases that have all these words in their fault or settings; `case=12` or `3-9` are
    /// case numbers (repeatable: cases that any filter is about)
    #[arg(long, value_name = "FILTER")]
    pub(crate) only: Vec<String>,
    /// Give a setting this value in place of the scenario's (repeatable; a name given twice is swept)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

/// How a run is carried out and told about.
#[derive(Clone, Debug, Args)]
pub(crate) struct MannerArgs {
    #[command(flatten)]
    pub(crate) nccl: NcclPaths,
    /// Ranks share the GPU through an MPS server of their own, started for each case
    #[arg(long)]
    pub(crate) mps: bool,
    /// How long faults live when agents hear nothing from this controller
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) lease: Nanos,
    #[command(flatten)]
    pub(crate) dir: RunsDir,
    /// Write what happened as recordings into this directory too, one file a cell of the matrix
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) state: StateDir,
    /// Print only the summary line and what is wrong
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// What goes to standard output when the run is over
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    pub(crate) format: Listing,
}

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A scenario of the library or a scenario file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) scenario: String,
    /// Where agents dial; loopback only until agents are authenticated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7447")]
    pub(crate) listen: SocketAddr,
    /// How many agents to wait for; each is one lane
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) agents: u32,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) manner: MannerArgs,
}

/// `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A scenario of the library or a scenario file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    pub(crate) format: Listing,
}

/// `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Which run [default: the latest]
    pub(crate) run: Option<String>,
    #[arg(long, value_enum, default_value_t = Document::Terminal)]
    pub(crate) format: Document,
    /// Write to a file in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dir: RunsDir,
}

/// `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The controller's address, as `ringbreaker serve` prints it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) controller: String,
    #[command(flatten)]
    pub(crate) state: StateDir,
    #[command(flatten)]
    pub(crate) nccl: NcclPaths,
    /// Keep virtual nodes apart by `namespaces`, `user-namespace` or not at all (`plain`)
    /// [default: the best there is]
    #[arg(long, value_enum)]
    pub(crate) isolation: Option<IsolationWord>,
    /// Number of the lane that this agent serves
    #[arg(long, hide = true)]
    pub(crate) lane: Option<u32>,
}

/// `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Lift the stop: agents of this machine may inject again
    #[arg(long, conflicts_with_all = ["controller", "reason"])]
    pub(crate) release: bool,
    /// A controller whose agents are to be stopped too (repeatable); those of agents of this machine are
    /// found
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) controller: Vec<String>,
    /// Why, for those who meet it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) state: StateDir,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    pub(crate) format: Listing,
}

/// Where runs are stored.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsDir {
    /// Where runs are stored
    #[arg(long, value_name = "DIR", env = "RINGBREAKER_DIR", default_value = "ringbreaker-runs")]
    pub(crate) dir: PathBuf,
}

/// Where agents keep what must outlive them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StateDir {
    /// Where agents journal their faults [default: /var/lib/ringbreaker for root, else
    /// ~/.local/state/ringbreaker]
    #[arg(long, value_name = "DIR", env = "RINGBREAKER_STATE")]
    pub(crate) state: Option<PathBuf>,
}

/// Copies of libnccl.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NcclPaths {
    /// A copy of libnccl.so.2 to use, in place of what is found
    #[arg(long, value_name = "PATH")]
    pub(crate) nccl: Vec<PathBuf>,
}

/// Output of listing subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Documents about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// The matrix as a table
    Terminal,
    /// One self-contained page
    Html,
    /// JUnit XML
    Junit,
    /// Everything that was found, for machines
    Json,
    /// The same, with the plan and every event of each case
    History,
    /// For issues and pull requests
    Markdown,
}

/// Isolation as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationWord {
    /// Network namespaces made as root
    Namespaces,
    /// The same inside a user namespace
    UserNamespace,
    /// None: loopback and the machine's own /dev/shm
    Plain,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_tells_every_exit_code() {
        let help = Cli::command().render_long_help().to_string();
        for (code, meaning) in exit::ALL {
            assert!(
                help.contains(&format!("{code:>3}  {meaning}")),
                "{code} is missing in:\n{help}"
            );
        }
    }
}
