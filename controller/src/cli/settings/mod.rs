//! `settings`: what each setting does, and what holds on this machine.

mod catalogue;
mod check;
mod given;
mod ladder;
mod prove;

use std::path::PathBuf;

use clap::Args;
use ringbreaker_scenarios::settings::{Layer, Reader, Version, Versions};

use crate::error::Error;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ringbreaker settings                         every name, one line each
  ringbreaker settings NCCL_IB_TIMEOUT         everything about one
  ringbreaker settings --search retries        those that mention a word
  ringbreaker settings --layer pytorch --reads-by nccl2
  ringbreaker settings NCCL_SOCKET_TIMEOUT     why it does nothing, and what does
  ringbreaker settings --check                 look at this environment
  ringbreaker settings --check NCCL_IB_TIMEOUT=600 NCCL_IB_RETRY_CNT=15
  ringbreaker settings --check --env-file job.env
  ringbreaker settings --prove                 what the libraries here contain, what is in force
  ringbreaker settings --prove NCCL_SOCKET_TIMEOUT --torch /opt/torch/bin/python3
  ringbreaker settings --ladder                every timer in force, and which can never fire
  ringbreaker settings --ladder --stack process-group-nccl --torchrun NCCL_TIMEOUT=30";

/// `settings`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("state").args(["check", "prove", "ladder"]))]
pub(crate) struct SettingsArgs {
    /// Settings to explain [default: all, one line each]; with values, settings to look at
    #[arg(value_name = "NAME|NAME=VALUE")]
    names: Vec<String>,
    /// Look at settings as they are (of the environment, of --env-file, or those named with a value)
    /// and say which are misspelt, unread, old, out of range or in a wrong unit; ends with 10 if any
    /// does not do what it says
    #[arg(long)]
    check: bool,
    /// Show for each name which libraries of this machine contain it, what value is in force, and
    /// where that comes from: environment, NCCL's files, kernel or default
    #[arg(long)]
    prove: bool,
    /// Put every timer in force in order, situation by situation, and say which can never fire because
    /// another fires first. NCCL_TIMEOUT counts as the timeout of the group, as scripts hand it on
    #[arg(long)]
    ladder: bool,
    /// What runs the collectives: `rank` is NCCL under ringbreaker's rank, the others are PyTorch's
    #[arg(long, value_enum, default_value_t = StackWord::Rank, requires = "ladder")]
    stack: StackWord,
    /// Ranks are started by torchrun
    #[arg(long, requires = "ladder")]
    torchrun: bool,
    /// The copy of libnccl to look into [default: the first that is found]
    #[arg(long, value_name = "PATH", requires = "prove")]
    nccl: Vec<PathBuf>,
    /// The PyTorch to look into: a Python that has it, its package's directory, or one of its
    /// libraries [default: the first that is found]
    #[arg(long, value_name = "PATH", requires = "prove")]
    torch: Option<PathBuf>,
    /// File of NAME=VALUE lines, in place of the environment
    #[arg(long, value_name = "FILE", requires = "state", conflicts_with = "prove")]
    env_file: Option<PathBuf>,
    /// Think of this version of NCCL [default: any, with the defaults of the newest]
    #[arg(long, value_name = "VERSION", requires = "state")]
    nccl_version: Option<Version>,
    /// Think of this version of PyTorch [default: any, with the defaults of the newest]
    #[arg(long, value_name = "VERSION", requires = "state")]
    torch_version: Option<Version>,
    /// Only settings of this layer
    #[arg(long, value_parser = layer, value_name = "LAYER")]
    layer: Option<Layer>,
    /// Only settings that this library or program reads
    #[arg(long, value_parser = reader, value_name = "READER")]
    reads_by: Option<Reader>,
    /// Only settings that mention this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// How to print; `markdown` is the whole of docs/settings.md
    #[arg(long, value_enum, default_value_t = Page::Text)]
    format: Page,
}

impl SettingsArgs {
    fn versions(&self) -> Versions {
        Versions { nccl: self.nccl_version, torch: self.torch_version }
    }
}

/// A stack as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StackWord {
    /// NCCL under ringbreaker's rank.
    Rank,
    /// PyTorch's ProcessGroupNCCL: the only one up to 2.13, the default in 2.14.
    ProcessGroupNccl,
    /// PyTorch's nccl2: the default from 2.15 on.
    Nccl2,
    /// PyTorch over gloo.
    Gloo,
}

/// How the catalogue is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Page {
    /// For people.
    Text,
    /// For machines.
    Json,
    /// The whole page, for documentation.
    Markdown,
}

/// Does what was asked for.
pub(super) fn main(args: &SettingsArgs) -> Result<u8, Error> {
    match () {
        () if args.check => check::main(args),
        () if args.ladder => ladder::main(args),
        () if args.prove => prove::main(args),
        () => catalogue::print_asked(args),
    }
}

fn layer(text: &str) -> Result<Layer, String> {
    word(text, Layer::ALL, Layer::word)
}

fn reader(text: &str) -> Result<Reader, String> {
    word(text, Reader::ALL, Reader::word)
}

fn word<T: Copy>(text: &str, all: &[T], of: impl Fn(T) -> &'static str) -> Result<T, String> {
    let words = || all.iter().map(|one| of(*one)).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|one| of(**one) == text);
    found.copied().ok_or_else(|| format!("there are: {}", words()))
}
