//! The agents of a run as the event loop meets them: where they come from ([`Cluster`]) and what the
//! wire keeps of them ([`Fleet`]) put together, so that every phase of a run hears the same words.
//!
//! Does the bookkeeping of every event and says what it means; decides nothing.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use nix::sys::signal::Signal;
use ringbreaker_proto::v1::{self, answer, command};
use ringbreaker_scenarios::{event::Event as Entry, units::Nanos};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::{
    fleet::Fleet,
    inbox::Event,
    lane::{AgentId, CaseRef, CommandId},
    stopping::{self, Stopping},
};
use crate::{clock, cluster::Cluster, error::Error, server::Message};

/// Commands that the decision core does not number itself are numbered from here; it begins at 1
/// and never comes this far.
const OWN_COMMANDS: CommandId = 1 << 62;

/// How long agents may take to leave, to heed SIGTERM, to vanish after SIGKILL.
const LEAVING: [(Option<Signal>, Duration); 3] = [
    (None, Duration::from_secs(20)),
    (Some(Signal::SIGTERM), Duration::from_secs(10)),
    (Some(Signal::SIGKILL), Duration::from_secs(10)),
];
/// How long the last words of agents that have ended may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long guards may take to heal after their agents are gone.
const HEALING: Duration = Duration::from_secs(15);

/// The agents.
pub(crate) struct Crew {
    pub(crate) fleet: Fleet,
    pub(crate) cluster: Cluster,
    inbox: mpsc::Receiver<Event>,
    lanes: BTreeMap<AgentId, u32>,
    commands: CommandId,
    stopping: Stopping,
}

/// What an event means.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An agent is there (again) and still holds these cases.
    Joined { agent: AgentId, holds: Vec<CaseRef> },
    /// A new entry of the history; to be acknowledged once it is in it.
    Observed { agent: AgentId, case: CaseRef, entry: Entry },
    /// A command was answered.
    Answered { agent: AgentId, command: CommandId, result: answer::Result },
    /// An agent's only stream ended.
    StreamGone { agent: AgentId },
    /// A child ended; it may not have registered.
    ChildEnded { lane: u32, agent: Option<AgentId>, how: String },
    /// The user wants to stop.
    Interrupted,
    /// The kill switch is engaged, here or on an agent's machine; told once.
    Stopped { stopped: String },
    /// Nothing that matters, or the deadline passed.
    Nothing,
}

impl Crew {
    /// Nobody is there yet.
    pub(crate) fn new(fleet: Fleet, cluster: Cluster, inbox: mpsc::Receiver<Event>) -> Crew {
        Crew {
            fleet,
            cluster,
            inbox,
            lanes: BTreeMap::new(),
            commands: OWN_COMMANDS,
            stopping: Stopping::default(),
        }
    }

    /// Waits for the next event, or for the deadline.
    pub(crate) async fn next(&mut self, deadline: Option<Nanos>) -> Heard {
        let event = match deadline {
            None => self.inbox.recv().await,
            Some(at) => {
                let wait = Duration::from(at.since(clock::now()));
                tokio::time::timeout(wait, self.inbox.recv()).await.unwrap_or(None)
            }
        };
        match event {
            Some(Event::Interrupted) => Heard::Interrupted,
            Some(Event::Stop { switch, reply }) => self.stop(switch, reply),
            Some(Event::ChildEnded { lane, pid, how }) => self.child_ended(lane, pid, how),
            Some(Event::Agent(message)) => self.hear(message),
            None => Heard::Nothing,
        }
    }

    fn hear(&mut self, message: Message) -> Heard {
        match message {
            Message::Registered { session, register, to_agent } => {
                let pid = register.probe.as_ref().map_or(0, |probe| probe.pid);
                if !self.cluster.admits(pid) {
                    let refusal = "this controller starts its own agents; use `ringbreaker serve`";
                    // Best effort: the stream ends either way.
                    let _ = to_agent.try_send(Err(Status::permission_denied(refusal)));
                    return Heard::Nothing;
                }
                self.join(session, pid, *register, to_agent)
            }
            Message::Observation { session, agent, observation } => {
                match self.fleet.take(session, &agent, &observation) {
                    Some((case, entry)) => Heard::Observed { agent, case, entry },
                    None => Heard::Nothing,
                }
            }
            Message::Answer { session, agent, answer } => {
                // Also of an agent whose process is known to have ended by now.
                if self.stopping.answered(&answer) {
                    return Heard::Nothing;
                }
                match answer.result.filter(|_| self.fleet.is_current(session, &agent)) {
                    Some(result) => Heard::Answered { agent, command: answer.command_id, result },
                    None => Heard::Nothing,
                }
            }
            Message::Heartbeat { agent, clock_ahead, stopped } => {
                self.fleet.heartbeat(&agent, clock_ahead);
                match stopped {
                    Some(switch) => self.stopped(&switch),
                    None => Heard::Nothing,
                }
            }
            Message::Closed { session, agent } => {
                if self.fleet.closed(session, &agent) {
                    self.stopping.lost(&agent);
                    Heard::StreamGone { agent }
                } else {
                    Heard::Nothing
                }
            }
        }
    }

    fn join(
        &mut self,
        session: crate::server::SessionId,
        pid: u32,
        register: v1::Register,
        to_agent: crate::server::ToAgent,
    ) -> Heard {
        let Some(joined) = self.fleet.join(session, register, to_agent) else {
            return Heard::Nothing;
        };
        if let Cluster::Local(local) = &self.cluster
            && let Some(lane) = local.lane_of(pid)
        {
            self.lanes.insert(joined.agent.clone(), lane);
        }
        // Cases of a controller that is gone are healed before ours begin.
        for case in joined.foreign {
            let because = "interrupted".to_owned();
            let finish = v1::Finish { case: Some(case), because };
            self.command(&joined.agent, command::Action::Finish(finish));
        }
        if let Some(switch) = self.stopping.switch() {
            self.command(&joined.agent, command::Action::StopInjections(switch));
        }
        Heard::Joined { agent: joined.agent, holds: joined.holds }
    }

    fn child_ended(&mut self, lane: u32, pid: u32, how: String) -> Heard {
        let Cluster::Local(local) = &mut self.cluster else { return Heard::Nothing };
        if !local.ended(lane, pid) {
            return Heard::Nothing;
        }
        let agent = self
            .lanes
            .iter()
            .find(|(id, number)| {
                **number == lane && self.fleet.probe(id).is_some_and(|probe| probe.pid == pid)
            })
            .map(|(id, _)| id.clone());
        if let Some(agent) = &agent {
            self.fleet.dismiss(agent);
        }
        Heard::ChildEnded { lane, agent, how }
    }

    /// Tells every agent to engage its kill switch.
    fn stop(&mut self, switch: v1::KillSwitch, reply: oneshot::Sender<v1::StopReport>) -> Heard {
        let agents: Vec<_> = self.fleet.present().cloned().collect();
        let told = agents.into_iter().map(|agent| {
            let command = self.command(&agent, command::Action::StopInjections(switch.clone()));
            (command, agent)
        });
        let waiting = told.collect();
        self.stopping.ask(self.fleet.run(), waiting, reply);
        self.stopped(&switch)
    }

    fn stopped(&mut self, switch: &v1::KillSwitch) -> Heard {
        match self.stopping.is_news(switch) {
            true => Heard::Stopped { stopped: stopping::sentence(switch) },
            false => Heard::Nothing,
        }
    }

    /// Sends a command that the decision core knows nothing of.
    pub(crate) fn command(&mut self, agent: &AgentId, action: command::Action) -> CommandId {
        self.commands += 1;
        self.fleet.command(agent, self.commands, action);
        self.commands
    }

    /// The lane that an agent serves, where agents are ours.
    pub(crate) fn lane(&self, agent: &AgentId) -> Option<u32> {
        self.lanes.get(agent).copied()
    }

    /// Starts the agent of a lane, where agents are ours; false when that failed too often.
    pub(crate) fn start(&mut self, lane: u32) -> Result<bool, Error> {
        match &mut self.cluster {
            Cluster::Local(local) => local.start(lane),
            Cluster::Remote => Ok(true),
        }
    }

    /// An agent that is of no use any more: ends it, where it is ours.
    pub(crate) fn discard(&mut self, agent: &AgentId) {
        self.fleet.dismiss(agent);
        if let (Cluster::Local(local), Some(lane)) = (&self.cluster, self.lane(agent)) {
            local.kill(lane);
        }
    }

    /// An agent finished a case.
    pub(crate) fn proved(&mut self, agent: &AgentId) {
        let pid = self.fleet.probe(agent).map_or(0, |probe| probe.pid);
        if let Cluster::Local(local) = &mut self.cluster {
            local.proved(pid);
        }
    }

    /// Lets every agent leave, sees to it that those of ours are gone, and says which directories
    /// they left behind: faults that are not healed.
    pub(crate) async fn leave(&mut self) -> Vec<PathBuf> {
        for agent in self.fleet.present().cloned().collect::<Vec<_>>() {
            self.tell_to_leave(&agent);
        }
        for (signal, wait) in LEAVING {
            if let (Cluster::Local(local), Some(signal)) = (&self.cluster, signal) {
                local.signal_all(signal);
            }
            let deadline = clock::now() + Nanos::from(wait);
            while self.anybody() && clock::now() < deadline {
                // What they observe while they leave has been recorded with their cases.
                match self.next(Some(deadline)).await {
                    Heard::Observed { agent, .. } => self.fleet.acknowledge(&agent),
                    // It was still on its way when the others were told.
                    Heard::Joined { agent, .. } => self.tell_to_leave(&agent),
                    _ => {}
                }
            }
            if !self.anybody() {
                break;
            }
        }
        // What agents said before they ended may still be on its way.
        let deadline = clock::now() + Nanos::from(LAST_WORDS);
        while self.stopping.waits() && clock::now() < deadline {
            self.next(Some(deadline)).await;
        }
        match &self.cluster {
            Cluster::Local(local) => {
                let agents: Vec<_> = self.fleet.everybody().cloned().collect();
                local.left_behind(&agents, HEALING).await
            }
            Cluster::Remote => Vec::new(),
        }
    }

    fn tell_to_leave(&mut self, agent: &AgentId) {
        self.command(agent, command::Action::Leave(v1::Leave {}));
    }

    fn anybody(&self) -> bool {
        match &self.cluster {
            Cluster::Local(local) => local.running() > 0,
            Cluster::Remote => self.fleet.present().next().is_some(),
        }
    }
}
