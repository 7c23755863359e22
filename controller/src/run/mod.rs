//! A run, from scenario to report.
//!
//! - [`start`] here is the whole story in order;
//! - [`config`] makes arguments ready, [`preflight`] decides what can be decided before, [`header`]
//!   is what is written down about the run, [`estimate`] how long it will take;
//! - [`core`] decides, purely; [`lane`] is its view of an agent; [`driver`] is the event loop;
//! - [`inbox`] is the one queue into a run; [`fleet`] is the wire's view of the agents, [`crew`] puts
//!   it together with where they come from; [`muster`] waits for them;
//! - [`stopping`] is the kill switch, as far as a run has to do with it;
//! - [`ledger`] is the store, [`progress`] the display, [`closing`] the end.

pub(crate) mod closing;
pub(crate) mod config;
pub(crate) mod core;
pub(crate) mod crew;
pub(crate) mod driver;
pub(crate) mod estimate;
pub(crate) mod fleet;
pub(crate) mod header;
pub(crate) mod inbox;
pub(crate) mod lane;
pub(crate) mod ledger;
pub(crate) mod muster;
pub(crate) mod opening;
pub(crate) mod preflight;
pub(crate) mod progress;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod stopping;

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use ringbreaker_agent::stop::Switch;
use ringbreaker_scenarios::units::Nanos;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::documents::tell,
    cluster::{
        Cluster,
        local::{Local, Recipe},
    },
    error::{Error, Expected, Internal},
    server,
};
use config::{Agents, Manner};
use core::Core;
use crew::Crew;
use driver::Driver;
use fleet::Fleet;
use inbox::Event;
use ledger::Ledger;
use opening::{Beginning, Opening};
use progress::Progress;

/// Carries a run out, from listening for agents to the exit code.
pub(crate) async fn start(beginning: Beginning, manner: Manner) -> Result<u8, Error> {
    let began = crate::clock::now();
    // Agents of ours journal here, and would refuse one by one.
    if let Some(stopped) = Switch::of(&manner.state).look()
        && matches!(manner.agents, Agents::Children { .. })
    {
        return Err(Expected::Stopped { stopped: stopped.to_string() }.into());
    }
    let ledger = Ledger::open(&manner.dir).await?;
    let beginning = beginning.check(&ledger).await?;
    let id = beginning.id();
    let directory = manner.dir.join(&id);
    let (sender, inbox) = inbox::inbox();
    inbox::watch_signals(sender.clone())
        .map_err(|source| Internal::Io { doing: "watch for signals", source })?;
    let served = Served::start(&manner, sender.clone()).await?;
    tokio::fs::create_dir_all(&directory)
        .await
        .map_err(|source| Expected::RunsDirectory { path: directory.clone(), source })?;
    let cluster = cluster(&manner, served.address, &directory, sender)?;
    let mut crew = Crew::new(Fleet::new(&id, manner.lease), cluster, inbox);
    let conducted = conduct(&mut crew, beginning, &manner, &ledger, &directory).await;
    let left_behind = crew.leave().await;
    served.end().await?;
    let left = left_behind.iter().map(|path| {
        format!("{} is still there; `ringbreaker recover` undoes what it lists", path.display())
    });
    let mut conduct = match conducted {
        Ok(conduct) => conduct,
        Err(error) => {
            left.for_each(|line| tell(&format!("ringbreaker: {line}")));
            // Empty unless the run was begun.
            let _ = tokio::fs::remove_dir(&directory).await;
            return Err(error);
        }
    };
    conduct.not_healed.extend(left);
    let elapsed = crate::clock::now().since(began);
    closing::conclude(&ledger, &manner, &directory, conduct, elapsed).await
}

/// What came of a run.
pub(crate) struct Conduct {
    /// Id of the run.
    pub(crate) id: String,
    /// Faults that could not be undone, as sentences.
    pub(crate) not_healed: Vec<String>,
    /// The user stopped it.
    pub(crate) interrupted: bool,
    /// The kill switch did, in words.
    pub(crate) stopped: Option<String>,
}

/// Everything that needs agents.
async fn conduct(
    crew: &mut Crew,
    beginning: Beginning,
    manner: &Manner,
    ledger: &Ledger,
    directory: &Path,
) -> Result<Conduct, Error> {
    let wanted = match manner.agents {
        Agents::Children { .. } => {
            crew.start(0)?;
            1
        }
        Agents::Guests { wanted, .. } => wanted as usize,
    };
    let agents = muster::gather(crew, wanted).await?;
    let Opening { header, cases, backend, lanes, nccl, impossible, private_mps } =
        opening::open(crew, &agents[0], beginning, manner, ledger).await?;
    if matches!(manner.agents, Agents::Children { .. }) {
        for lane in 1..lanes {
            crew.start(lane)?;
        }
    }
    let mut progress = Progress::new(manner.quiet, cases.iter().map(|(plan, _)| plan), lanes);
    opening::announce(&mut progress, &header, &backend, &cases, lanes, impossible.len());
    let runnable: Vec<_> =
        cases.iter().filter(|(plan, _)| !impossible.contains_key(&plan.index)).cloned().collect();
    let attempts: BTreeMap<u32, u32> = cases.iter().map(|(p, first)| (p.index, *first)).collect();
    let mut driver = Driver {
        plans: cases.into_iter().map(|(plan, _)| (plan.index, plan)).collect(),
        header,
        directory: directory.to_owned(),
        nccl,
        private_mps,
        core: Core::new(&runnable, driver::patience(manner.lease), 1),
        crew,
        ledger: ledger.clone(),
        progress,
        not_healed: Vec::new(),
        interruptions: 0,
        stopped: None,
    };
    driver.record_impossible(&impossible, &attempts).await?;
    let ran = driver.run().await;
    driver.progress.close();
    let id = driver.header.id.clone();
    if let (Agents::Guests { .. }, Some(most)) =
        (manner.agents, driver.crew.fleet.clock_difference())
    {
        driver.progress.note(&format!("clocks of agents and controller differ by at most {most}"));
    }
    if let Err(error) = ran {
        let resume = closing::resume(&id, manner);
        tell(&format!("ringbreaker: what is done is stored; `{resume}` finishes the rest"));
        return Err(error);
    }
    let interrupted = driver.interruptions > 0;
    Ok(Conduct { id, not_healed: driver.not_healed, interrupted, stopped: driver.stopped })
}

/// The server and the way to end it.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Internal>>,
}

impl Served {
    async fn start(manner: &Manner, inbox: mpsc::Sender<Event>) -> Result<Served, Error> {
        let address = match manner.agents {
            Agents::Children { .. } => SocketAddr::from(([127, 0, 0, 1], 0)),
            Agents::Guests { listen, .. } => listen,
        };
        let listener = server::listen(address).await?;
        let address = listener
            .local_addr()
            .map_err(|source| Internal::Io { doing: "find the port listened on", source })?;
        if let Agents::Guests { wanted, .. } = manner.agents {
            tell(&format!(
                "listening on {address}; waiting for {wanted} agent(s): \
                 `ringbreaker agent --controller {address}`"
            ));
        }
        let stop = CancellationToken::new();
        let task = server::serve(listener, inbox, stop.clone());
        Ok(Served { address, stop, task })
    }

    async fn end(self) -> Result<(), Error> {
        self.stop.cancel();
        // A guest whose connection lingers must not keep us.
        match tokio::time::timeout(Nanos::from_secs(5).into(), self.task).await {
            Ok(Ok(served)) => Ok(served?),
            Ok(Err(_)) => Err(Internal::Panicked { doing: "serving agents" }.into()),
            Err(_) => Ok(()),
        }
    }
}

fn cluster(
    manner: &Manner,
    controller: SocketAddr,
    directory: &Path,
    inbox: mpsc::Sender<Event>,
) -> Result<Cluster, Error> {
    if matches!(manner.agents, Agents::Guests { .. }) {
        return Ok(Cluster::Remote);
    }
    let program = ringbreaker_agent::program::program()
        .map_err(|source| Internal::Io { doing: "find the own executable", source })?;
    let recipe = Recipe {
        program,
        controller,
        state: manner.state.clone(),
        nccl: manner.nccl.clone(),
        logs: directory.to_owned(),
    };
    Ok(Cluster::Local(Local::new(recipe, inbox)))
}
