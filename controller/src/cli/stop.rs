//! `stop`: the kill switch of this machine.
//!
//! The switch itself is a file that agents watch, so it works whether or not a controller lives.
//! Controllers are told beside it: they end their runs, and reach agents that watch another directory.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    presence::{self, Presence},
    recover::{self, RecoveredItem},
    stop::{Stopped, Switch},
};
use ringbreaker_proto::v1::{self, control_client::ControlClient};
use serde_json::json;
use tonic::transport::Endpoint;

use super::{
    args::{Listing, StopArgs},
    documents::{print, print_json},
    runtime,
};
use crate::{
    error::{Error, Expected},
    exit,
    run::config::state_directory,
};

/// How long a controller may take to connect, and to hear from all of its agents.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(90);
/// How long agents of this machine may take to heal.
const HEAL: Duration = Duration::from_secs(60);

/// What came of a stop.
#[derive(Debug, Default)]
struct Outcome {
    /// Runs that were stopped, with what their agents say.
    runs: Vec<v1::StopReport>,
    /// Controllers that could not be told, and why.
    unheard: Vec<(SocketAddr, String)>,
    /// What dead agents had left.
    recovered: Vec<RecoveredItem>,
    /// What is still in force on this machine.
    left: Vec<String>,
}

pub(super) fn main(args: StopArgs) -> Result<u8, Error> {
    let state = state_directory(args.state.state.clone());
    let switch = Switch::of(&state);
    if args.release {
        return release(&switch, &state, args.format);
    }
    let named: BTreeSet<SocketAddr> =
        args.controller.iter().map(|text| address(text)).collect::<Result<_, _>>()?;
    let stopped = Stopped {
        since: jiff::Timestamp::now().strftime("%F %T UTC").to_string(),
        by: whoever(),
        reason: args.reason.clone(),
    };
    // Before anything that may take time.
    switch.engage(&stopped).map_err(|source| failed("engaging the kill switch", &state, source))?;
    let stopped = switch.look().unwrap_or(stopped);
    let agents = agents(&state)?;
    let found = agents.iter().filter(|agent| agent.alive);
    let found: BTreeSet<SocketAddr> =
        found.filter_map(|agent| agent.controller.as_deref()?.parse().ok()).collect();
    let mut outcome = runtime()?.block_on(tell(named.union(&found).copied().collect(), &stopped));
    // A run whose agents are here may end by itself before it is told; `heal` sees its agents.
    outcome.unheard.retain(|(controller, _)| !found.contains(controller));
    heal(&state, &mut outcome)?;
    match args.format {
        Listing::Text => tell_people(&state, &stopped, &outcome),
        Listing::Json => print_json(&as_json(&state, &stopped, &outcome)),
    }
    Ok(if healed(&outcome) { exit::PASS } else { exit::NOT_HEALED })
}

fn release(switch: &Switch, state: &Path, format: Listing) -> Result<u8, Error> {
    let was = switch.look();
    let released =
        switch.release().map_err(|source| failed("releasing the kill switch", state, source))?;
    match (format, was.filter(|_| released)) {
        (Listing::Json, was) => print_json(&json!({
            "state": state, "released": released, "was": was.map(|was| was.to_string()),
        })),
        (Listing::Text, Some(Stopped { since, by, .. })) => print(&format!(
            "released: agents under {} may inject again (stopped since {since} by {by})",
            state.display()
        )),
        (Listing::Text, None) => {
            print(&format!("nothing was stopped: {} has no kill switch engaged", state.display()));
        }
    }
    Ok(exit::PASS)
}

/// Loopback only, as everything that listens.
fn address(text: &str) -> Result<SocketAddr, Error> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    let parsed = numeric.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    parsed.ok_or_else(|| {
        let help = "write the loopback address that `ringbreaker serve` prints, such as \
                    127.0.0.1:7447";
        let given = text.to_owned();
        Expected::Argument { given, what: "address of a controller", help: help.to_owned() }.into()
    })
}

/// User and host, as far as they are known.
fn whoever() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    let user = user.map_or_else(|| nix::unistd::geteuid().to_string(), |user| user.name);
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{user}@{}", host.to_string_lossy())
}

/// Tells every controller, all at once.
async fn tell(controllers: BTreeSet<SocketAddr>, stopped: &Stopped) -> Outcome {
    let mut told = tokio::task::JoinSet::new();
    for controller in controllers {
        let Stopped { since, by, reason } = stopped.clone();
        let request = v1::StopRequest { stop: Some(v1::KillSwitch { since, by, reason }) };
        told.spawn(async move {
            let answer = tokio::time::timeout(ANSWER, ask(controller, request)).await;
            (controller, answer.unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}"))))
        });
    }
    let mut outcome = Outcome::default();
    while let Some(answer) = told.join_next().await {
        match answer {
            Ok((_, Ok(report))) => outcome.runs.push(report),
            Ok((controller, Err(why))) => outcome.unheard.push((controller, why)),
            Err(error) => tracing::error!(%error, "a controller could not be told"),
        }
    }
    outcome
}

async fn ask(controller: SocketAddr, request: v1::StopRequest) -> Result<v1::StopReport, String> {
    let endpoint = Endpoint::from_shared(format!("http://{controller}"))
        .map_err(|error| error.to_string())?
        .connect_timeout(CONNECT);
    let channel = endpoint.connect().await.map_err(|error| {
        let cause = std::error::Error::source(&error);
        cause.map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    let report = ControlClient::new(channel).stop(request).await;
    report.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
}

/// Waits until no agent of this machine has anything to undo, and undoes what dead ones left.
fn heal(state: &Path, outcome: &mut Outcome) -> Result<(), Error> {
    let deadline = Instant::now() + HEAL;
    loop {
        let open: Vec<Presence> =
            agents(state)?.into_iter().filter(|agent| !agent.open.is_empty()).collect();
        if open.iter().any(Presence::abandoned) {
            let recovered =
                recover::recover(state).map_err(|source| failed_recovery(state, source))?;
            outcome.recovered.extend(recovered);
        } else if open.is_empty() {
            return Ok(());
        }
        let stuck = outcome.recovered.iter().any(|item| item.result.is_err());
        if stuck || Instant::now() >= deadline {
            let words = |agent: &Presence| {
                let undos = agent.open.iter().map(ToString::to_string);
                format!("{}: {}", agent.name, undos.collect::<Vec<_>>().join("; "))
            };
            outcome.left = open.iter().map(words).collect();
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn healed(outcome: &Outcome) -> bool {
    let Outcome { runs, unheard, recovered, left } = outcome;
    let trouble = runs.iter().flat_map(|run| &run.agents).any(|agent| !agent.trouble.is_empty());
    !trouble
        && unheard.is_empty()
        && left.is_empty()
        && recovered.iter().all(|item| item.result.is_ok())
}

fn tell_people(state: &Path, stopped: &Stopped, outcome: &Outcome) {
    let Outcome { runs, unheard, recovered, left } = outcome;
    print(&format!("{}: {stopped}", state.display()));
    for v1::StopReport { run, agents } in runs {
        print(&format!("run {run}: stopped, {} agents have answered", agents.len()));
        for agent in agents.iter().filter(|agent| !agent.trouble.is_empty()) {
            print(&format!("  {}: {}", agent.agent_id, agent.trouble));
        }
    }
    for (controller, why) in unheard {
        print(&format!("the controller at {controller} was not told: {why}"));
    }
    recovered.iter().for_each(|item| print(&item.to_string()));
    left.iter().for_each(|what| print(&format!("not healed: {what}")));
    if left.is_empty() {
        print("nothing is in force on this machine");
    }
}

fn as_json(state: &Path, stopped: &Stopped, outcome: &Outcome) -> serde_json::Value {
    let Outcome { runs, unheard, recovered, left } = outcome;
    let agent =
        |agent: &v1::StoppedAgent| json!({ "id": agent.agent_id, "trouble": agent.trouble });
    let run = |report: &v1::StopReport| json!({ "run": report.run, "agents": report.agents.iter().map(agent).collect::<Vec<_>>() });
    let unheard = unheard.iter().map(|(at, why)| json!({ "controller": at, "reason": why }));
    json!({
        "state": state,
        "stopped": stopped,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
        "unheard": unheard.collect::<Vec<_>>(),
        "recovered": recovered.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "left": left,
        "healed": healed(outcome),
    })
}

fn agents(state: &Path) -> Result<Vec<Presence>, Error> {
    presence::agents(state).map_err(|source| failed("looking for agents", state, source))
}

fn failed(doing: &str, state: &Path, source: std::io::Error) -> Error {
    let what = format!("{doing} in {}", state.display());
    Expected::Environment { what, source: Box::new(source) }.into()
}

fn failed_recovery(state: &Path, source: recover::RecoverError) -> Error {
    let what = format!("recovering from {}", state.display());
    Expected::Environment { what, source: Box::new(source) }.into()
}
