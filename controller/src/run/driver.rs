//! The one event loop that owns a run: hears, asks the decision core, carries out.

use std::{collections::BTreeMap, path::PathBuf};

use ringbreaker_proto::v1::answer;
use ringbreaker_reports::{history::CaseHistory, history::RunHeader, report::CaseResult};
use ringbreaker_scenarios::{
    case::CasePlan,
    event::{EndReason, Event, What},
    units::Nanos,
};

use super::{
    core::{Action, Core, Fate, Input},
    crew::{Crew, Heard},
    lane::{AgentId, CaseRef, CommandId, Order},
    ledger::Ledger,
    muster,
    progress::Progress,
};
use crate::{
    clock,
    cluster::Cluster,
    error::{Error, Expected},
    wire,
};

/// Everything that a run owns.
pub(crate) struct Driver<'a> {
    pub(crate) header: RunHeader,
    /// The directory of this run, absolute.
    pub(crate) directory: PathBuf,
    pub(crate) plans: BTreeMap<u32, CasePlan>,
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) private_mps: bool,
    pub(crate) core: Core,
    pub(crate) crew: &'a mut Crew,
    pub(crate) ledger: Ledger,
    pub(crate) progress: Progress,
    /// Faults that could not be undone, as sentences.
    pub(crate) not_healed: Vec<String>,
    pub(crate) interruptions: u32,
    /// The kill switch is engaged, in words.
    pub(crate) stopped: Option<String>,
}

impl Driver<'_> {
    /// Records what cannot be carried out here, without asking anybody.
    pub(crate) async fn record_impossible(
        &mut self,
        reasons: &BTreeMap<u32, String>,
        attempts: &BTreeMap<u32, u32>,
    ) -> Result<(), Error> {
        for (index, reason) in reasons {
            let case = CaseRef { index: *index, attempt: *attempts.get(index).unwrap_or(&1) };
            let at = clock::now();
            let because = EndReason::Unavailable;
            let events = [What::Unavailable { reason: reason.clone() }, What::Ended { because }];
            let events = events.map(|what| Event { at, rank: None, what }).to_vec();
            self.record(None, case, events, &Fate::Done).await?;
        }
        Ok(())
    }

    /// Runs until every case is recorded or the user stopped it.
    pub(crate) async fn run(&mut self) -> Result<(), Error> {
        let mut over = self.step(Input::Tick).await?;
        for agent in self.crew.fleet.present().cloned().collect::<Vec<_>>() {
            over |= self.step(Input::AgentUp { agent, holds: Vec::new() }).await?;
        }
        while !over {
            let heard = self.crew.next(self.core.next_deadline()).await;
            over = self.take(heard).await?;
        }
        Ok(())
    }

    async fn take(&mut self, heard: Heard) -> Result<bool, Error> {
        match heard {
            Heard::Joined { agent, holds } => self.step(Input::AgentUp { agent, holds }).await,
            Heard::Observed { agent, case, entry } => {
                self.progress.observed(&agent, &entry);
                let input = Input::Observed { agent: agent.clone(), case, event: entry };
                let over = self.step(input).await?;
                self.crew.fleet.acknowledge(&agent);
                Ok(over)
            }
            Heard::Answered { agent, command, result } => {
                let answer = match result {
                    answer::Result::Done(_) | answer::Result::Settings(_) => Ok(()),
                    answer::Result::Refused(refused) => Err(refused.reason),
                };
                self.step(Input::Answered { agent, command, answer }).await
            }
            Heard::StreamGone { agent } => self.step(Input::StreamGone { agent }).await,
            Heard::ChildEnded { lane, agent, how } => self.child_ended(lane, agent, how).await,
            Heard::Interrupted => self.interrupt().await,
            Heard::Stopped { stopped } => self.stop(stopped).await,
            Heard::Nothing => self.step(Input::Tick).await,
        }
    }

    async fn child_ended(
        &mut self,
        lane: u32,
        agent: Option<AgentId>,
        how: String,
    ) -> Result<bool, Error> {
        self.progress.warn(&format!("the agent of lane {lane} ended: {how}"));
        let mut over = false;
        if let Some(agent) = agent {
            let reason = format!("its agent ended: {how}");
            over = self.step(Input::AgentDead { agent, reason }).await?;
        }
        if over || self.core.interrupted() || self.crew.start(lane)? {
            return Ok(over);
        }
        let others = match &self.crew.cluster {
            Cluster::Local(local) => local.running(),
            Cluster::Remote => 1,
        };
        self.progress.warn(&format!("lane {lane} is given up, {others} are left"));
        match others {
            0 => Err(muster::start_failed(self.crew, lane, &format!("it ended: {how}"))),
            _ => Ok(false),
        }
    }

    async fn interrupt(&mut self) -> Result<bool, Error> {
        self.interruptions += 1;
        let text = match self.interruptions {
            1 => "stopping: ending the cases in flight and healing every fault",
            _ => "still healing; what was broken is put right before ringbreaker leaves",
        };
        self.progress.warn(text);
        self.step(Input::Interrupted).await
    }

    /// No agent takes anything on any more.
    async fn stop(&mut self, stopped: String) -> Result<bool, Error> {
        self.progress.warn(&format!("stopping: {stopped}"));
        self.stopped = Some(stopped);
        self.step(Input::Interrupted).await
    }

    /// Asks the core and carries out what it says; true when the run is over.
    async fn step(&mut self, input: Input) -> Result<bool, Error> {
        let mut over = false;
        for action in self.core.step(clock::now(), input) {
            match action {
                Action::Send { agent, command, order } => self.send(&agent, command, order).await?,
                Action::Record { agent, case, events, fate } => {
                    self.record(Some(&agent), case, events, &fate).await?;
                }
                Action::Replace { agent, reason } => {
                    self.progress.note(&format!("agent {agent} is given up: {reason}"));
                    self.crew.discard(&agent);
                }
                Action::CaseBegan { agent, case } => {
                    if let Some(plan) = self.plans.get(&case.index) {
                        self.progress.case_began(&agent, plan);
                    }
                }
                Action::Over => over = true,
            }
        }
        Ok(over)
    }

    async fn send(&mut self, agent: &AgentId, id: CommandId, order: Order) -> Result<(), Error> {
        let Some(plan) = self.plans.get(&order.case().index) else { return Ok(()) };
        let directory = self.case_directory(order.case());
        if matches!(order, Order::Prepare(_)) {
            tokio::fs::create_dir_all(&directory)
                .await
                .map_err(|source| Expected::RunsDirectory { path: directory.clone(), source })?;
        }
        let ground = wire::Ground {
            run: &self.header.id,
            nccl: self.nccl.as_deref(),
            directory: &directory,
            private_mps: self.private_mps,
        };
        let action = wire::action(&order, plan, ground);
        self.crew.fleet.command(agent, id, action);
        Ok(())
    }

    /// Later attempts keep the logs of earlier ones.
    fn case_directory(&self, case: CaseRef) -> PathBuf {
        let name = match case.attempt {
            1 => format!("{:04}", case.index),
            again => format!("{:04}.{again}", case.index),
        };
        self.directory.join("cases").join(name)
    }

    async fn record(
        &mut self,
        agent: Option<&AgentId>,
        case: CaseRef,
        events: Vec<Event>,
        fate: &Fate,
    ) -> Result<(), Error> {
        let Some(plan) = self.plans.get(&case.index).cloned() else { return Ok(()) };
        self.not_healed.extend(heal_failures(&plan, &events));
        let history = CaseHistory { plan, attempt: case.attempt, events };
        let result = CaseResult::of(history.clone(), &self.header);
        self.ledger.append(&self.header.id, history).await?;
        match (fate, agent) {
            (Fate::Done, _) | (Fate::Lost { .. }, _) => self.progress.case_ended(agent, &result),
            (Fate::Retried { .. } | Fate::Interrupted, Some(agent)) => {
                self.progress.case_left(agent);
            }
            (Fate::Retried { .. } | Fate::Interrupted, None) => {}
        }
        match (fate, agent) {
            (Fate::Done, Some(agent)) => self.crew.proved(agent),
            (Fate::Retried { reason }, _) => {
                let text = format!("case {} is tried once more: {reason}", case.index);
                self.progress.warn(&text);
            }
            (Fate::Lost { reason }, _) => {
                self.progress.warn(&format!("case {} is given up: {reason}", case.index));
            }
            _ => {}
        }
        Ok(())
    }
}

fn heal_failures(plan: &CasePlan, events: &[Event]) -> Vec<String> {
    let label = |id: u32| {
        let fault = plan.faults.iter().find(|fault| fault.id == id);
        fault.map_or_else(|| format!("fault {id}"), |fault| fault.label.clone())
    };
    let failure = |event: &Event| match &event.what {
        What::HealFailed { fault, reason } => {
            Some(format!("case {}: {} is not undone: {reason}", plan.index, label(*fault)))
        }
        _ => None,
    };
    events.iter().filter_map(failure).collect()
}

/// How patient a run is; `lease` is the user's.
pub(crate) fn patience(lease: Nanos) -> super::core::Patience {
    super::core::Patience {
        // Four ranks that each make a CUDA context on a cold machine.
        prepare: Nanos::from_secs(120),
        finish: Nanos::from_secs(60),
        lease,
        attempts: 2,
    }
}
