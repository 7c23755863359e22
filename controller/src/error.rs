//! How things go wrong, in two tiers: what the user or the environment can change ([`Expected`],
//! each with its exit code and what to do next), and what only a bug or a broken disk explains
//! ([`Internal`]).

use std::{fmt::Write as _, io, net::SocketAddr, path::PathBuf};

use crate::exit;

/// Any failure of a subcommand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The user or the environment can change it.
    #[error(transparent)]
    Expected(#[from] Expected),
    /// Nobody should ever see it.
    #[error(transparent)]
    Internal(#[from] Internal),
}

/// What the user or the environment can change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Expected {
    /// A name that is neither in the library nor a file.
    #[error(
        "no scenario {:?} is shipped and there is no such file{} `ringbreaker list` shows what is shipped",
        unknown.given,
        meant(&unknown.hint)
    )]
    UnknownScenario { unknown: ringbreaker_scenarios::library::UnknownScenario },
    /// A scenario file that cannot be read.
    #[error("failed to read the scenario {}; check the path and its permissions", path.display())]
    ScenarioUnreadable { path: PathBuf, source: io::Error },
    /// A scenario with problems, rendered with their positions.
    #[error("{rendered}")]
    ScenarioInvalid { rendered: String },
    /// An argument that parses but means nothing.
    #[error("{given:?} is no {what}; {help}")]
    Argument { given: String, what: &'static str, help: String },
    /// Listening beyond this machine.
    #[error("refusing to listen on {address}: agents are not authenticated yet (mutual TLS is not \
             there yet), so only loopback addresses are allowed; try 127.0.0.1:{}", address.port())]
    NotLoopback { address: SocketAddr },
    /// The port is taken, or the address is not ours.
    #[error("failed to listen on {address}; choose another with --listen")]
    Listen { address: SocketAddr, source: io::Error },
    /// The store of runs cannot be used, or has no such run.
    #[error(transparent)]
    Store { source: Box<dyn std::error::Error + Send + Sync> },
    /// Nothing stored at all.
    #[error("no runs are stored in {}; `ringbreaker run quick` makes one, --dir names another \
             directory", dir.display())]
    NoRuns { dir: PathBuf },
    /// A run with nothing left to do.
    #[error("run {id} is complete; `ringbreaker report {id}` shows it")]
    NothingToResume { id: String },
    /// The backend is not there.
    #[error("backend {backend} is not available: {reason}")]
    NoBackend { backend: &'static str, reason: String },
    /// An agent child did not come up.
    #[error("the agent of lane {lane} did not register: {reason}; its log is {}", log.display())]
    AgentStart { lane: u32, reason: String, log: PathBuf },
    /// Agents that users start did not come or did not stay.
    #[error("no agent is left: {reason}")]
    NoAgents { reason: String },
    /// The user stopped before anything was begun.
    #[error("interrupted before the first case; nothing was broken")]
    InterruptedEarly,
    /// The kill switch was engaged before anything was begun.
    #[error("nothing was begun: {stopped}")]
    Stopped { stopped: String },
    /// The user stopped a benchmark.
    #[error("interrupted: the benchmark has no figures; its faults are healed")]
    InterruptedBench,
    /// The directory of runs cannot be used.
    #[error("failed to use the directory {}; choose another with --dir", path.display())]
    RunsDirectory { path: PathBuf, source: io::Error },
    /// Recordings that cannot be written.
    #[error("failed to write recordings; choose another directory with --record")]
    Recording { source: Box<dyn std::error::Error + Send + Sync> },
    /// An output file that cannot be written.
    #[error("failed to write {}", path.display())]
    Output { path: PathBuf, source: io::Error },
    /// An agent was given an address that it does not dial.
    #[error(transparent)]
    AgentAddress { source: Box<dyn std::error::Error + Send + Sync> },
    /// The agent could not serve.
    #[error(transparent)]
    Agent { source: Box<dyn std::error::Error + Send + Sync> },
    /// An agent or tool of the machine said no.
    #[error("{what} failed")]
    Environment { what: String, source: Box<dyn std::error::Error + Send + Sync> },
}

/// A hint that begins with a name is a guess.
fn meant(hint: &str) -> String {
    if hint.starts_with('"') { format!(": did you mean {hint}?") } else { format!("; {hint};") }
}

/// What only a bug or a broken disk explains.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Internal {
    /// The system refused something that it should not.
    #[error("failed to {doing}")]
    Io { doing: &'static str, source: io::Error },
    /// The store refused something that it should not.
    #[error("failed to {doing} in the store of runs")]
    Store { doing: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// A document could not be made.
    #[error("failed to write a report")]
    Document { source: Box<dyn std::error::Error + Send + Sync> },
    /// The gRPC server ended.
    #[error("the server for agents ended")]
    Server { source: Box<dyn std::error::Error + Send + Sync> },
    /// A task panicked.
    #[error("a task of ringbreaker panicked while {doing}")]
    Panicked { doing: &'static str },
}

impl Error {
    /// The exit code that goes with it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Internal(_) => exit::INTERNAL,
            Error::Expected(e) => match e {
                Expected::InterruptedEarly | Expected::InterruptedBench => exit::INTERRUPTED,
                Expected::Stopped { .. } => exit::STOPPED,
                Expected::NoBackend { .. }
                | Expected::NoAgents { .. }
                | Expected::AgentStart { .. }
                | Expected::Agent { .. }
                | Expected::RunsDirectory { .. }
                | Expected::Output { .. }
                | Expected::Recording { .. }
                | Expected::Environment { .. } => exit::LACKING,
                _ => exit::USAGE,
            },
        }
    }

    /// The message with its causes indented below it, ready to be printed.
    pub(crate) fn report(&self) -> String {
        let mut text = match self {
            Error::Internal(_) => format!("ringbreaker: internal error: {self}"),
            // Its lines are aligned below each other.
            Error::Expected(Expected::ScenarioInvalid { rendered }) => rendered.clone(),
            Error::Expected(_) => format!("ringbreaker: {self}"),
        };
        let mut cause = std::error::Error::source(self);
        while let Some(e) = cause {
            let _ = write!(text, "\n  caused by: {e}");
            cause = e.source();
        }
        if matches!(self, Error::Internal(_)) {
            text.push_str("\n  this is a bug or a broken disk: please report it with this message");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_its_causes_and_what_to_do() {
        let error = Error::from(Expected::ScenarioUnreadable {
            path: "x.toml".into(),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        });
        assert_eq!(
            error.report(),
            "ringbreaker: failed to read the scenario x.toml; check the path and its permissions\n  \
             caused by: permission denied"
        );
        assert_eq!(error.exit_code(), exit::USAGE);
    }

    #[test]
    fn a_wide_open_address_is_refused_with_one_that_works() {
        let error = Error::from(Expected::NotLoopback { address: "0.0.0.0:7447".parse().unwrap() });
        assert!(error.report().contains("try 127.0.0.1:7447"), "{}", error.report());
        assert_eq!(error.exit_code(), 2);
    }
}
