//! The agents of a run as the wire sees them: sessions, sequence numbers, acknowledgements, clocks.
//!
//! Guarantees: every observation reaches the history once and in order, however often it is sent;
//! it is acknowledged only when the event loop says that it is in the history; of two streams of
//! one agent the later counts; two agents of one name are refused. Decides nothing about cases.

use std::collections::BTreeMap;

use ringbreaker_proto::v1::{self, command, to_agent};
use ringbreaker_scenarios::{
    event::{Event, What},
    units::Nanos,
};
use tonic::Status;

use super::lane::{AgentId, CaseRef, CommandId};
use crate::{
    clock,
    server::{SessionId, ToAgent},
};

/// An agent is asked for a sign of life this many times a lease.
const HEARTBEATS_A_LEASE: u64 = 10;

/// All agents that ever registered in this run.
pub(crate) struct Fleet {
    run: String,
    lease: Nanos,
    agents: BTreeMap<AgentId, Agent>,
}

struct Agent {
    probe: v1::NodeProbe,
    /// Dropping it ends the stream.
    stream: Option<(SessionId, ToAgent)>,
    /// The last observation that is in the history; none: nothing came yet.
    stored: Option<u64>,
    /// The smallest difference seen between our clock and the agent's, way included.
    clock_ahead: Option<i64>,
}

/// A registration that was accepted.
pub(crate) struct Joined {
    /// Who.
    pub(crate) agent: AgentId,
    /// What it still holds of this run.
    pub(crate) holds: Vec<CaseRef>,
    /// What it still holds of runs of other controllers.
    pub(crate) foreign: Vec<v1::CaseRef>,
}

impl Fleet {
    /// The fleet of this run; faults outlive a lost stream by `lease`.
    pub(crate) fn new(run: &str, lease: Nanos) -> Fleet {
        Fleet { run: run.to_owned(), lease, agents: BTreeMap::new() }
    }

    /// Id of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Takes an agent in and welcomes it; refuses a second agent of the same name.
    pub(crate) fn join(
        &mut self,
        session: SessionId,
        register: v1::Register,
        stream: ToAgent,
    ) -> Option<Joined> {
        let id = register.agent_id;
        let probe = register.probe.unwrap_or_default();
        let known = self.agents.remove(&id);
        if let Some(other) =
            known.as_ref().filter(|a| a.stream.is_some() && a.probe.pid != probe.pid)
        {
            let pid = other.probe.pid;
            let refusal = format!("agent {id} is here already, as process {pid}");
            // Best effort: the stream ends either way.
            let _ = stream.try_send(Err(Status::already_exists(refusal)));
            self.agents.extend(known.map(|agent| (id, agent)));
            return None;
        }
        let stored = known.as_ref().and_then(|a| a.stored);
        let clock_ahead = known.and_then(|a| a.clock_ahead);
        let welcome = v1::Welcome {
            controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            heartbeat_ms: (self.lease.0 / 1_000_000 / HEARTBEATS_A_LEASE).max(1),
            lease_ms: self.lease.0 / 1_000_000,
            acknowledged: stored.unwrap_or(0),
        };
        let agent = Agent { probe, stream: Some((session, stream)), stored, clock_ahead };
        self.agents.insert(id.clone(), agent);
        self.say(&id, to_agent::Message::Welcome(welcome));
        let (ours, foreign): (Vec<_>, Vec<_>) =
            register.cases.into_iter().partition(|case| case.run == self.run);
        let holds = ours.iter().map(|c| CaseRef { index: c.index, attempt: c.attempt }).collect();
        Some(Joined { agent: id, holds, foreign })
    }

    /// The entry of the history that an observation carries, unless it is a repetition. The
    /// caller puts it into the history, then calls [`Fleet::acknowledge`].
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        id: &AgentId,
        observation: &v1::Observation,
    ) -> Option<(CaseRef, Event)> {
        let run = self.run.clone();
        let agent = self.current(session, id)?;
        match agent.stored {
            Some(stored) if observation.sequence <= stored => {
                // It did not hear the acknowledgement.
                self.acknowledge(id);
                return None;
            }
            Some(stored) if observation.sequence > stored + 1 => {
                tracing::warn!(
                    agent = id,
                    observation.sequence,
                    stored,
                    "observations are missing"
                );
                // It connects again and sends what follows the last acknowledged one.
                agent.stream = None;
                return None;
            }
            // The first may have any number: the agent may have served another controller.
            _ => agent.stored = Some(observation.sequence),
        }
        let case = observation.case.as_ref().filter(|case| case.run == run);
        let Some(case) = case else {
            self.acknowledge(id);
            return None;
        };
        Some((CaseRef { index: case.index, attempt: case.attempt }, event(&observation.event_json)))
    }

    /// Tells the agent that it may forget what is stored.
    pub(crate) fn acknowledge(&mut self, id: &AgentId) {
        if let Some(stored) = self.agents.get(id).and_then(|agent| agent.stored) {
            self.say(id, to_agent::Message::Acknowledged(stored));
        }
    }

    /// Whether this stream is the agent's current one.
    pub(crate) fn is_current(&mut self, session: SessionId, id: &AgentId) -> bool {
        self.current(session, id).is_some()
    }

    /// A stream ended; true when the agent has no other.
    pub(crate) fn closed(&mut self, session: SessionId, id: &AgentId) -> bool {
        let Some(agent) = self.agents.get_mut(id) else { return false };
        match &agent.stream {
            Some((current, _)) if *current != session => false,
            _ => {
                agent.stream = None;
                true
            }
        }
    }

    /// Keeps the smallest clock difference seen: the one with the shortest way in it.
    pub(crate) fn heartbeat(&mut self, id: &AgentId, clock_ahead: i64) {
        if let Some(agent) = self.agents.get_mut(id) {
            let best = agent.clock_ahead.unwrap_or(clock_ahead);
            agent.clock_ahead =
                Some(if clock_ahead.abs() < best.abs() { clock_ahead } else { best });
        }
    }

    /// Sends a command, if there is a stream.
    pub(crate) fn command(&mut self, id: &AgentId, command: CommandId, action: command::Action) {
        let command = v1::Command { id: command, action: Some(action) };
        self.say(id, to_agent::Message::Command(command));
    }

    /// Ends an agent's stream.
    pub(crate) fn dismiss(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.stream = None;
        }
    }

    /// Agents with a stream.
    pub(crate) fn present(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.iter().filter(|(_, agent)| agent.stream.is_some()).map(|(id, _)| id)
    }

    /// Everybody who ever registered.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.keys()
    }

    /// What an agent found on its machine.
    pub(crate) fn probe(&self, id: &AgentId) -> Option<&v1::NodeProbe> {
        self.agents.get(id).map(|agent| &agent.probe)
    }

    /// The largest clock difference of any agent, way included; none before the first heartbeat.
    pub(crate) fn clock_difference(&self) -> Option<Nanos> {
        let differences = self.agents.values().filter_map(|agent| agent.clock_ahead);
        differences.map(|d| Nanos(d.unsigned_abs())).max()
    }

    fn current(&mut self, session: SessionId, id: &AgentId) -> Option<&mut Agent> {
        let agent = self.agents.get_mut(id)?;
        let current = agent.stream.as_ref().is_some_and(|(current, _)| *current == session);
        current.then_some(agent)
    }

    /// An agent that does not take its messages for a thousand of them is as good as gone: its
    /// stream ends, and it may come back.
    fn say(&mut self, id: &AgentId, message: to_agent::Message) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let Some((_, stream)) = &agent.stream else { return };
        if stream.try_send(Ok(v1::ToAgent { message: Some(message) })).is_err() {
            tracing::warn!(agent = id, "the stream takes no more messages");
            agent.stream = None;
        }
    }
}

/// What an agent observed; what a newer one says is kept as it came.
fn event(json: &[u8]) -> Event {
    serde_json::from_slice(json).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(json);
        let line = format!("an observation that this version does not know ({error}): {text}");
        Event { at: clock::now(), rank: None, what: What::Log { line } }
    })
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
