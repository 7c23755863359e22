//! The thread of a case: what it hears, in order, until it ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::Duration,
};

use ringbreaker_scenarios::{
    case::Rank,
    event::{EndReason, Event, ExitStatus, What},
    exposure::Transports,
    units::Nanos,
    words::Backend,
};

use super::{
    Assignment, CaseError, Surroundings,
    environment::{self, Log},
    equipment::{self, Equipment},
    exposed::unexposed,
    faults::Faults,
    finish,
    history::History,
    input::{Answer, Input},
    logs,
    mps::Mps,
    ranks::{Ranks, be_urgent},
    site::Site,
    triggers,
};
use crate::{
    inject::Ground,
    log_pipe::LogPipe,
    rank::protocol::{FromRank, ToRank},
    sys::clock,
};

/// How long ranks may take until they hold their devices. Many processes that open one GPU at once
/// take some seconds.
const READY_WITHIN: Nanos = Nanos::from_secs(60);
/// How often the thread looks around when nothing is due.
const IDLE: Duration = Duration::from_millis(500);

/// A case with living ranks.
pub(super) struct Life<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) surroundings: &'a Surroundings,
    pub(super) history: &'a mut History,
    pub(super) heard: &'a Receiver<Input>,
    pub(super) site: Site,
    pub(super) ranks: Ranks,
    /// The MPS server of this case, if it has one.
    pub(super) mps: Option<Mps>,
    /// The pipes that logs go through.
    pub(super) log_pipes: BTreeMap<Rank, Arc<LogPipe>>,
    /// Armed when all ranks are ready.
    pub(super) faults: Option<Faults>,
    /// Who else asked for the end while the case was ending.
    pub(super) also: Vec<Answer>,
    stage: Stage,
    warm: BTreeSet<Rank>,
    /// What carries data, as far as ranks have told.
    transports: Transports,
}

/// How far it has come.
enum Stage {
    Preparing { ready: BTreeSet<Rank>, by: Nanos },
    Ready,
    Running,
}

/// Why the thread stops listening.
enum Stop {
    /// The case cannot be carried out here.
    Refused(CaseError),
    /// It is to be ended; the asker waits.
    Finish(EndReason, Option<Answer>),
}

/// What is still to be answered when a case has ended.
pub(super) struct LastWords(Vec<(Option<Answer>, Result<(), String>)>);

impl LastWords {
    pub(super) fn say(self) {
        for (asker, result) in self.0 {
            answer(asker, result);
        }
    }
}

/// The whole life of a case, on its thread.
pub(super) fn live(
    assignment: &Assignment,
    surroundings: &Surroundings,
    mut history: History,
    to_self: &SyncSender<Input>,
    heard: &Receiver<Input>,
    prepared: Answer,
) -> LastWords {
    let mut prepared = Some(prepared);
    let born = Life::begin(assignment, surroundings, &mut history, to_self, heard);
    let mut life = match born {
        Ok(life) => life,
        Err(error) => {
            history.now(What::Unavailable { reason: error.to_string() });
            history.now(What::Ended { because: EndReason::Unavailable });
            return LastWords(vec![(prepared, Err(error.to_string()))]);
        }
    };
    let (because, asker, refusal) = match life.listen(&mut prepared) {
        Stop::Refused(error) => {
            let reason = error.to_string();
            life.history.now(What::Unavailable { reason: reason.clone() });
            (EndReason::Unavailable, None, reason)
        }
        Stop::Finish(because, asker) => (because, asker, CaseError::EndedEarly.to_string()),
    };
    let (finished, also) = finish::finish(life, because);
    let late = heard.try_iter().filter_map(|input| match input {
        Input::Finish(_, again) => Some(again),
        _ => None,
    });
    let again = also.into_iter().chain(late).map(|again| (Some(again), finished.clone()));
    // The first is still there when the ranks were never all ready.
    let words = [(prepared, Err(refusal)), (asker, finished.clone())];
    LastWords(words.into_iter().chain(again).collect())
}

/// An asker that went away needs no answer.
fn answer(asker: Option<Answer>, result: Result<(), String>) {
    if let Some(asker) = asker {
        drop(asker.send(result));
    }
}

impl<'a> Life<'a> {
    /// Builds the nodes and starts the ranks.
    fn begin(
        assignment: &'a Assignment,
        surroundings: &'a Surroundings,
        history: &'a mut History,
        to_self: &SyncSender<Input>,
        heard: &'a Receiver<Input>,
    ) -> Result<Life<'a>, CaseError> {
        let directory = &assignment.directory;
        fs::create_dir_all(directory).map_err(CaseError::file("create", directory))?;
        let mut equipment = Equipment::of(assignment, surroundings)?;
        equipment.note_unread(assignment, history)?;
        let journal = Arc::clone(&surroundings.journal);
        let site = Site::build(assignment, surroundings.isolation, journal)?;
        history.now(What::Prepared {
            backend: assignment.backend,
            isolation: surroundings.isolation,
            nodes: site.addresses(),
        });
        let log_pipes = match make_pipes(assignment) {
            Ok(pipes) => pipes,
            Err(error) => {
                site.abandon();
                return Err(error);
            }
        };
        let started = start_ranks(assignment, surroundings, &site, &mut equipment, to_self);
        let (ranks, mps) = match started {
            Ok(started) => started,
            Err(error) => {
                site.abandon();
                return Err(error);
            }
        };
        for (rank, pid) in ranks.pids() {
            history.note(clock::now(), Some(rank), What::RankStarted { pid });
        }
        let stage = Stage::Preparing { ready: BTreeSet::new(), by: clock::now() + READY_WITHIN };
        let warm = BTreeSet::new();
        Ok(Life {
            assignment,
            surroundings,
            history,
            heard,
            site,
            ranks,
            mps,
            log_pipes,
            faults: None,
            also: Vec::new(),
            stage,
            warm,
            transports: Transports::default(),
        })
    }

    /// Hears and acts until the case is to end.
    fn listen(&mut self, prepared: &mut Option<Answer>) -> Stop {
        // Not before: the fabric's threads must not inherit it.
        be_urgent();
        loop {
            let heard = match self.heard.recv_timeout(self.pause()) {
                Ok(input) => self.hear(input, prepared),
                // This thread holds a sender itself, so it is never disconnected.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
            };
            if let Some(stop) = heard.or_else(|| self.look_around()) {
                return stop;
            }
        }
    }

    /// How long nothing is due.
    fn pause(&self) -> Duration {
        self.faults.as_ref().and_then(Faults::next_tick).unwrap_or(IDLE).min(IDLE)
    }

    fn look_around(&mut self) -> Option<Stop> {
        if let Some(faults) = &mut self.faults {
            faults.tick(self.history);
        }
        match &self.stage {
            Stage::Preparing { ready, by } if clock::now() >= *by => {
                let all = 0..self.assignment.world();
                Some(Stop::Refused(CaseError::NotReady {
                    ranks: all.filter(|rank| !ready.contains(rank)).collect(),
                    seconds: READY_WITHIN.0 / 1_000_000_000,
                    directory: self.assignment.directory.clone(),
                }))
            }
            _ => None,
        }
    }

    fn hear(&mut self, input: Input, prepared: &mut Option<Answer>) -> Option<Stop> {
        match input {
            Input::Begin(asker) => {
                let begun = self.run();
                answer(Some(asker), begun);
            }
            Input::AbortRanks(asker) => {
                self.ranks.tell_all(&ToRank::Abort);
                answer(Some(asker), Ok(()));
            }
            Input::Finish(because, asker) => return Some(Stop::Finish(because, Some(asker))),
            Input::Renewed => self.feed(triggers::Input::Renewed),
            Input::Said { rank, at, said } => return self.said(rank, at, said, prepared),
            Input::Garbled { rank, at, line } => self.garbled(rank, at, line),
            Input::Exited { rank, at, status } => return self.exited(rank, at, status),
        }
        None
    }

    /// The case begins: its ranks are told to initialise.
    fn run(&mut self) -> Result<(), String> {
        match self.stage {
            Stage::Preparing { .. } => return Err("its ranks are not ready yet".to_owned()),
            Stage::Running => return Ok(()),
            Stage::Ready => {}
        }
        self.stage = Stage::Running;
        self.history.now(What::Began);
        // Faults for before init are in force before the first rank moves.
        self.feed(triggers::Input::Began);
        self.ranks.tell(0, &ToRank::MakeId);
        for rank in 1..self.assignment.world() {
            self.ranks.tell(rank, &ToRank::AwaitId);
        }
        Ok(())
    }

    fn said(
        &mut self,
        rank: Rank,
        at: Nanos,
        said: FromRank,
        prepared: &mut Option<Answer>,
    ) -> Option<Stop> {
        match said {
            FromRank::Ready { clock } => {
                self.ranks.told_clock(rank, clock, at);
                return self.ready(rank, prepared);
            }
            FromRank::Id { id } => self.ranks.tell_all(&ToRank::Init { id }),
            FromRank::WarmedUp => self.warmed_up(rank, at),
            FromRank::Observed(event) => self.observed(rank, event),
        }
        None
    }

    fn ready(&mut self, rank: Rank, prepared: &mut Option<Answer>) -> Option<Stop> {
        let Stage::Preparing { ready, .. } = &mut self.stage else { return None };
        ready.insert(rank);
        if ready.len() < self.assignment.world() as usize {
            return None;
        }
        match self.arm() {
            Ok(faults) => {
                self.faults = Some(faults);
                self.stage = Stage::Ready;
                answer(prepared.take(), Ok(()));
                None
            }
            Err(error) => Some(Stop::Refused(error)),
        }
    }

    fn arm(&mut self) -> Result<Faults, CaseError> {
        // Every rank holds its device now, so the server exists.
        if let Some(mps) = &mut self.mps {
            mps.note_servers()?;
        }
        let ground = Ground::new(
            Arc::clone(&self.site.nodes),
            self.site.fabric.clone(),
            self.ranks.processes(self.assignment),
            self.assignment.cluster.rendezvous_port,
            self.assignment.directory.clone(),
        )
        .with_log_pipes(self.log_pipes.clone())
        .with_gpus(equipment::gpus_by_rank(self.assignment, self.surroundings.gpus));
        let Surroundings { journal, switch, .. } = self.surroundings;
        Faults::arm(&self.assignment.faults, &ground, Arc::clone(journal), switch.clone())
    }

    fn warmed_up(&mut self, rank: Rank, at: Nanos) {
        self.warm.insert(rank);
        if self.warm.len() == self.assignment.world() as usize {
            self.ranks.tell_all(&ToRank::Go);
            self.history.note(at, None, What::Steady);
            self.withdraw_unexposed();
            self.feed(triggers::Input::Steady);
        }
    }

    /// Faults that cannot touch what carries data, now that this is known, are not injected.
    fn withdraw_unexposed(&mut self) {
        let Assignment { backend, faults, .. } = self.assignment;
        for (fault, reason) in unexposed(*backend, faults, &self.transports) {
            self.history.now(What::FaultUnexposed { fault, reason });
            self.feed(triggers::Input::Unexposed(fault));
        }
    }

    fn observed(&mut self, rank: Rank, event: Event) {
        if let What::Transport { name } = &event.what {
            self.transports.add(name);
        }
        let input = match event.what {
            What::PhaseEntered { phase } => Some(triggers::Input::Phase(rank, phase)),
            What::IterationReached { iteration } => {
                Some(triggers::Input::Iteration(rank, iteration))
            }
            _ => None,
        };
        self.history.note(self.assignment.agents_time(rank, event.at), Some(rank), event.what);
        if let Some(input) = input {
            self.feed(input);
        }
    }

    fn garbled(&mut self, rank: Rank, at: Nanos, line: String) {
        let line = format!("ringbreaker did not understand this rank: {line}");
        self.history.note(at, Some(rank), What::Log { line });
    }

    /// A rank is gone. Whether that is the end of the case is for the controller to say.
    fn exited(&mut self, rank: Rank, at: Nanos, status: ExitStatus) -> Option<Stop> {
        let by_harness = self.ranks.exited(rank, status);
        self.history.note(at, Some(rank), What::RankExited { status, by_harness });
        if !matches!(self.stage, Stage::Preparing { .. }) {
            return None;
        }
        let log = environment::log_path(&self.assignment.directory, rank, Log::Own);
        let last_words = logs::last_words(&log);
        Some(Stop::Refused(CaseError::RankEnded { rank, status, last_words }))
    }

    fn feed(&mut self, input: triggers::Input) {
        if let Some(faults) = &mut self.faults {
            faults.feed(input, self.history);
        }
    }
}

/// Before the ranks, which open them when they start.
fn make_pipes(assignment: &Assignment) -> Result<BTreeMap<Rank, Arc<LogPipe>>, CaseError> {
    let piped = (0..assignment.world()).filter(|rank| assignment.pipes_log(*rank));
    let make = |rank| {
        let path = environment::pipe_path(&assignment.directory, rank);
        let log = environment::log_path(&assignment.directory, rank, Log::Nccl);
        let pipe = LogPipe::make(&path, &log).map_err(CaseError::file("create", &path))?;
        Ok((rank, Arc::new(pipe)))
    };
    piped.map(make).collect()
}

/// Starts the ranks, and their MPS server before them where one is asked for.
fn start_ranks(
    assignment: &Assignment,
    surroundings: &Surroundings,
    site: &Site,
    equipment: &mut Equipment,
    to_self: &SyncSender<Input>,
) -> Result<(Ranks, Option<Mps>), CaseError> {
    let mps = match assignment.private_mps && assignment.backend == Backend::Nccl {
        true => {
            let log = assignment.directory.join("mps");
            let journal = Arc::clone(&surroundings.journal);
            Some(Mps::start(&surroundings.home.join("mps"), &log, journal)?)
        }
        false => None,
    };
    equipment.env.extend(mps.iter().flat_map(Mps::variables));
    match Ranks::start(assignment, site, equipment, to_self) {
        Ok(ranks) => Ok((ranks, mps)),
        Err(error) => {
            if let Some(mps) = mps {
                mps.abandon();
            }
            Err(error)
        }
    }
}
