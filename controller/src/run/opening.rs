//! From what the user wants to a run that is written down: backend, plan, lanes, notes, header.

use std::{collections::BTreeMap, path::PathBuf};

use ringbreaker_proto::v1;
use ringbreaker_reports::history::RunHeader;
use ringbreaker_scenarios::{
    case::CasePlan,
    plan,
    scenario::Scenario,
    settings::{self, Version, Versions},
    words::Backend,
};

use super::{
    config::{self, Agents, Manner},
    crew::Crew,
    estimate, header,
    lane::AgentId,
    ledger::Ledger,
    muster, preflight,
    progress::Progress,
};
use crate::{
    cli::args::PlanArgs,
    error::{Error, Expected},
};

/// Keys of the header's environment that a resumed run takes its manner from.
const NCCL_PATH: &str = "nccl path";
const PRIVATE_MPS: &str = "private mps";

/// What a run begins with.
pub(crate) enum Beginning {
    /// A scenario that was found right.
    Fresh { id: String, scenario: Box<Scenario>, plan: PlanArgs },
    /// The pending cases of a stored run, each with the number of its next attempt.
    Resume { header: Box<RunHeader>, cases: Vec<(CasePlan, u32)> },
    /// A stored run that is to be looked up.
    Stored { run: String },
}

/// A run that is written down and can begin.
pub(crate) struct Opening {
    pub(crate) header: RunHeader,
    /// Every case with the number of its first attempt.
    pub(crate) cases: Vec<(CasePlan, u32)>,
    /// The backend in words: which and why.
    pub(crate) backend: String,
    pub(crate) lanes: u32,
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) private_mps: bool,
    /// Cases that cannot be carried out here, and why.
    pub(crate) impossible: BTreeMap<u32, String>,
}

impl Beginning {
    /// Refuses what can be refused before any process is started.
    pub(crate) async fn check(self, ledger: &Ledger) -> Result<Beginning, Error> {
        match self {
            Beginning::Stored { run } => {
                let cases = ledger.pending(&run).await?;
                if cases.is_empty() {
                    return Err(Expected::NothingToResume { id: run }.into());
                }
                let header = Box::new(ledger.load(&run).await?.header);
                Ok(Beginning::Resume { header, cases })
            }
            Beginning::Fresh { id, scenario, plan } => {
                // The number of cases and the filters do not depend on the backend.
                let options = config::options(&plan, Backend::Host);
                plan::plan(&scenario, &options).map_err(|problems| config::invalid(&problems))?;
                Ok(Beginning::Fresh { id, scenario, plan })
            }
            resume @ Beginning::Resume { .. } => Ok(resume),
        }
    }

    /// Id of the run.
    pub(crate) fn id(&self) -> String {
        match self {
            Beginning::Fresh { id, .. } => id.clone(),
            Beginning::Resume { header, .. } => header.id.clone(),
            Beginning::Stored { run } => run.clone(),
        }
    }
}

/// Decides what needs to know the machine, and writes the run down.
pub(crate) async fn open(
    crew: &mut Crew,
    agent: &AgentId,
    beginning: Beginning,
    manner: &Manner,
    ledger: &Ledger,
) -> Result<Opening, Error> {
    let probe = crew.fleet.probe(agent).cloned().unwrap_or_default();
    match beginning {
        Beginning::Fresh { id, scenario, plan } => {
            let planned = Planned::new(&scenario, &plan, manner, &probe)?;
            let notes = planned.notes(crew, agent, &probe).await?;
            let header = planned.header(id, &scenario, manner, &probe, notes);
            ledger.begin(header.clone(), planned.plans.clone()).await?;
            let cases = planned.plans.into_iter().map(|plan| (plan, 1)).collect();
            Ok(opening(header, cases, planned.backend_words, manner, &probe))
        }
        Beginning::Resume { header, cases } => {
            let missing = preflight::backend(Some(header.backend), None, &probe).err();
            if let Some(reason) = missing {
                return Err(Expected::NoBackend { backend: header.backend.word(), reason }.into());
            }
            let words = format!("{}, as it began", header.backend);
            Ok(opening(*header, cases, words, manner, &probe))
        }
        Beginning::Stored { run } => Err(Expected::NothingToResume { id: run }.into()),
    }
}

fn opening(
    header: RunHeader,
    cases: Vec<(CasePlan, u32)>,
    backend: String,
    manner: &Manner,
    probe: &v1::NodeProbe,
) -> Opening {
    let asked = match manner.agents {
        Agents::Children { lanes } => lanes,
        Agents::Guests { wanted, .. } => Some(wanted),
    };
    let plans: Vec<CasePlan> = cases.iter().map(|(plan, _)| plan.clone()).collect();
    let impossible = preflight::impossible(&plans, probe);
    Opening {
        lanes: preflight::lanes(asked, header.backend, cases.len() - impossible.len()),
        nccl: header.environment.get(NCCL_PATH).map(PathBuf::from),
        private_mps: header.environment.contains_key(PRIVATE_MPS),
        impossible,
        header,
        cases,
        backend,
    }
}

/// A plan for this machine.
struct Planned {
    plans: Vec<CasePlan>,
    backend: Backend,
    backend_words: String,
    /// The copy of libnccl that ranks open; empty with the stand-in.
    nccl: String,
    seed: u64,
}

impl Planned {
    fn new(
        scenario: &Scenario,
        args: &PlanArgs,
        manner: &Manner,
        probe: &v1::NodeProbe,
    ) -> Result<Planned, Error> {
        let wished = args.backend.or(scenario.backend).unwrap_or(Backend::Nccl);
        let choice = preflight::backend(args.backend, scenario.backend, probe)
            .map_err(|reason| Expected::NoBackend { backend: wished.word(), reason })?;
        let options = config::options(args, choice.backend);
        let plans =
            plan::plan(scenario, &options).map_err(|problems| config::invalid(&problems))?;
        let asked = manner.nccl.first().map(|path| path.to_string_lossy().into_owned());
        let found = probe.nccl.first().map(|library| library.path.clone());
        let nccl = match choice.backend {
            Backend::Nccl => asked.or(found).unwrap_or_default(),
            Backend::Host => String::new(),
        };
        Ok(Planned {
            plans,
            backend: choice.backend,
            backend_words: format!("{} ({})", choice.backend, choice.why),
            nccl,
            seed: options.seed,
        })
    }

    /// What the reader should know: settings without effect, and settings that are odd.
    async fn notes(
        &self,
        crew: &mut Crew,
        agent: &AgentId,
        probe: &v1::NodeProbe,
    ) -> Result<Vec<String>, Error> {
        let mut notes =
            muster::flag_settings(crew, agent, self.backend, &self.nccl, &self.plans).await?;
        let library = probe.nccl.iter().find(|library| library.path == self.nccl);
        let nccl = library.and_then(|library| Version::first(&library.version));
        let versions = Versions { nccl, torch: None };
        notes.extend(settings::odd_values(&self.plans, versions));
        notes.extend(settings::lost_timers(&self.plans, versions));
        Ok(notes)
    }

    fn header(
        &self,
        id: String,
        scenario: &Scenario,
        manner: &Manner,
        probe: &v1::NodeProbe,
        notes: Vec<String>,
    ) -> RunHeader {
        let mut environment = header::environment(probe, self.backend, &self.nccl);
        if !self.nccl.is_empty() {
            environment.insert(NCCL_PATH.to_owned(), self.nccl.clone());
        }
        if manner.private_mps && self.backend == Backend::Nccl {
            environment.insert(PRIVATE_MPS.to_owned(), "a server for each case".to_owned());
        }
        RunHeader {
            id,
            scenario: scenario.file.clone(),
            summary: scenario.summary.clone(),
            scenario_text: scenario.text.clone(),
            seed: self.seed,
            backend: self.backend,
            started: jiff::Timestamp::now().to_string(),
            ended: None,
            command: header::command_line(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: header::COMMIT.map(str::to_owned),
            environment,
            probe: header::probe_text(probe),
            notes,
        }
    }
}

/// Says what is about to happen.
pub(crate) fn announce(
    progress: &mut Progress,
    header: &RunHeader,
    backend: &str,
    cases: &[(CasePlan, u32)],
    lanes: u32,
    impossible: usize,
) {
    progress.note(&format!("{}: {}", header.scenario, header.summary));
    progress.note(&format!("backend {backend}"));
    if header.backend == Backend::Host {
        progress.note("host stand-in: rehearses the harness, says nothing about your NCCL");
    }
    for note in &header.notes {
        progress.note(&format!("! {note}"));
    }
    let unable = match impossible {
        0 => String::new(),
        n => format!(" ({n} not possible here)"),
    };
    let time = estimate::words(estimate::run(cases.iter().map(|(plan, _)| plan), lanes));
    progress.note(&format!(
        "run {}: {} cases{unable}, seed {}, {lanes} side by side, about {time}",
        header.id,
        cases.len(),
        header.seed,
    ));
}
