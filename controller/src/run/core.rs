//! The decisions of a run: which case goes to which agent, when a case is over, what a lost agent
//! costs. Pure: state and input give actions, and time is an argument.
//!
//! [`super::driver`] feeds it and carries its actions out. Guarantees: every queued case is recorded
//! exactly once unless the run is interrupted; a case that was begun is finished (healed) before
//! its agent gets another; after an interruption no case is handed out. It never talks to anybody.
//!
//! ```text
//!            Done               all ranks gone | cap | interrupted          Done
//! Preparing ------> Running ------------------------------------> Finishing ------> recorded
//!     | Refused        | agent lost: tried once more, then recorded as lost |
//!     v                v                                                    v
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ringbreaker_scenarios::{
    case::{CasePlan, FaultPlan, Rank},
    event::{EndReason, Event, What},
    fault::FaultKind,
    units::Nanos,
};

use super::lane::{AgentId, CaseRef, CommandId, Held, Lane, Order, Stage};

/// How long the run waits for agents.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// From `Prepare` until the ranks are ready.
    pub(crate) prepare: Nanos,
    /// From `Finish` until everything is healed and audited.
    pub(crate) finish: Nanos,
    /// From the loss of a stream until the agent counts as lost.
    pub(crate) lease: Nanos,
    /// How often a case is tried when its agent is lost.
    pub(crate) attempts: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// An agent registered, for the first time or again, and still holds these cases.
    AgentUp { agent: AgentId, holds: Vec<CaseRef> },
    /// An agent's stream ended; it may come back.
    StreamGone { agent: AgentId },
    /// An agent's process ended; it will not come back.
    AgentDead { agent: AgentId, reason: String },
    /// An entry of the history, in order and exactly once.
    Observed { agent: AgentId, case: CaseRef, event: Event },
    /// A command was answered: done, or refused with a reason.
    Answered { agent: AgentId, command: CommandId, answer: Result<(), String> },
    /// The user wants to stop.
    Interrupted,
    /// Time passed; see [`Core::next_deadline`].
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Send a command to an agent.
    Send { agent: AgentId, command: CommandId, order: Order },
    /// An attempt at a case is over: store its history, in one transaction.
    Record { agent: AgentId, case: CaseRef, events: Vec<Event>, fate: Fate },
    /// This agent is of no use any more: end it, and start another if that is in our power.
    Replace { agent: AgentId, reason: String },
    /// A case was handed to an agent.
    CaseBegan { agent: AgentId, case: CaseRef },
    /// Nothing is left to do.
    Over,
}

/// What an attempt means for its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The case ran to its end (or is known not to be runnable).
    Done,
    /// Its agent was lost; the case is queued again.
    Retried { reason: String },
    /// Its agent was lost, once too often.
    Lost { reason: String },
    /// The user cut it short; it stays pending.
    Interrupted,
}

/// What the core needs to know about a case.
struct Facts {
    world: u32,
    /// How many faults it has.
    faults: usize,
    /// Ranks that the plan stops for good, by the fault that does; they cannot end by themselves.
    stopped: BTreeMap<u32, Vec<Rank>>,
    cap: Nanos,
    coordinated_abort: bool,
    last_attempt: u32,
}

/// The state of a run.
pub(crate) struct Core {
    patience: Patience,
    cases: BTreeMap<u32, Facts>,
    queue: VecDeque<CaseRef>,
    lanes: BTreeMap<AgentId, Lane>,
    next_command: CommandId,
    interrupted: bool,
    over: bool,
}

impl Core {
    /// A run of these cases in this order, each with the number of its first attempt; commands are
    /// numbered from `first_command`.
    pub(crate) fn new(
        cases: &[(CasePlan, u32)],
        patience: Patience,
        first_command: CommandId,
    ) -> Core {
        let facts = |plan: &CasePlan, first: u32| Facts {
            world: plan.world(),
            faults: plan.faults.len(),
            stopped: plan
                .faults
                .iter()
                .filter(|f| stops_for_good(f))
                .map(|f| (f.id, f.target.ranks.clone()))
                .collect(),
            cap: plan.cap,
            coordinated_abort: plan.coordinated_abort,
            last_attempt: first + patience.attempts.saturating_sub(1),
        };
        let queue = cases.iter().map(|(p, first)| CaseRef { index: p.index, attempt: *first });
        Core {
            cases: cases.iter().map(|(p, first)| (p.index, facts(p, *first))).collect(),
            queue: queue.collect(),
            patience,
            lanes: BTreeMap::new(),
            next_command: first_command,
            interrupted: false,
            over: false,
        }
    }

    /// Takes one input and says what is to be done, in this order.
    pub(crate) fn step(&mut self, now: Nanos, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::AgentUp { agent, holds } => self.agent_up(now, agent, &holds, &mut actions),
            Input::StreamGone { agent } => {
                let lost_at = now + self.patience.lease;
                if let Some(lane) = self.lanes.get_mut(&agent) {
                    lane.lost_at = Some(lost_at);
                }
            }
            Input::AgentDead { agent, reason } => self.lose(now, &agent, reason, &mut actions),
            Input::Observed { agent, case, event } => {
                self.observed(now, &agent, case, event, &mut actions);
            }
            Input::Answered { agent, command, answer } => {
                self.answered(now, &agent, command, answer, &mut actions);
            }
            Input::Interrupted => self.interrupt(now, &mut actions),
            Input::Tick => {}
        }
        self.pass_deadlines(now, &mut actions);
        self.hand_out(now, &mut actions);
        if !self.over && self.idle() && (self.interrupted || self.queue.is_empty()) {
            self.over = true;
            actions.push(Action::Over);
        }
        actions
    }

    /// When the next [`Input::Tick`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.lanes.values().filter_map(Lane::next_deadline).min()
    }

    /// Whether the user asked to stop.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// A number for a command that the core does not send itself.
    pub(crate) fn number_command(&mut self) -> CommandId {
        let command = self.next_command;
        self.next_command += 1;
        command
    }

    fn idle(&self) -> bool {
        self.lanes.values().all(|lane| lane.held.is_none())
    }

    fn held(&mut self, agent: &AgentId) -> Option<&mut Held> {
        self.lanes.get_mut(agent)?.held.as_mut()
    }

    fn agent_up(&mut self, now: Nanos, agent: AgentId, holds: &[CaseRef], out: &mut Vec<Action>) {
        let lane = self.lanes.entry(agent.clone()).or_default();
        lane.lost_at = None;
        // An agent that forgot its case has restarted under its old name.
        let forgot = lane.held.as_ref().is_some_and(|held| {
            !matches!(held.stage, Stage::Preparing { .. }) && !holds.contains(&held.case)
        });
        if forgot {
            lane.unanswered.clear();
            self.lose_case(now, &agent, "it restarted and forgot the case", out);
            return;
        }
        for (command, order) in &lane.unanswered {
            let (command, order) = (*command, order.clone());
            out.push(Action::Send { agent: agent.clone(), command, order });
        }
    }

    fn observed(
        &mut self,
        now: Nanos,
        agent: &AgentId,
        case: CaseRef,
        event: Event,
        out: &mut Vec<Action>,
    ) {
        // Late words about an attempt that is given up already are nobody's.
        let Some(held) = self.held(agent).filter(|held| held.case == case) else { return };
        let running = matches!(held.stage, Stage::Running { .. });
        let mut given_up = false;
        match (&event.what, event.rank) {
            (What::RankExited { by_harness, .. }, Some(rank)) => {
                held.exited.insert(rank);
                // We did not tell it to finish: its user ended it, or its lease was over.
                given_up = running && *by_harness;
            }
            (What::Detected(_), _) => held.detected = true,
            (What::FaultWitnessed { fault, .. }, _) => {
                held.witnessed.insert(*fault);
            }
            (What::FaultUnexposed { fault, .. }, _) => {
                held.unexposed.insert(*fault);
            }
            _ => {}
        }
        held.events.push(event);
        if given_up {
            self.lose(now, agent, "it ended the case by itself and leaves".to_owned(), out);
            return;
        }
        let (mut gone, untold) = (held.exited.clone(), held.detected && !held.abort_told);
        let witnessed = held.witnessed.clone();
        let unexposed = held.unexposed.len();
        let Some(facts) = self.cases.get(&case.index) else { return };
        // Whoever is stopped for good has nothing left to do in this case: waiting for the cap would
        // show nothing more.
        let held_up = facts.stopped.iter().filter(|(fault, _)| witnessed.contains(fault));
        gone.extend(held_up.flat_map(|(_, ranks)| ranks));
        if running && all_gone(&gone, facts.world) {
            self.finish(now, agent, EndReason::RanksGone, out);
        } else if running && unexposed > 0 && unexposed == facts.faults {
            // Nothing will happen any more that is worth the time.
            self.finish(now, agent, EndReason::Unexposed, out);
        } else if running && untold && facts.coordinated_abort {
            if let Some(held) = self.held(agent) {
                held.abort_told = true;
            }
            self.send(agent, Order::AbortRanks(case), out);
        }
    }

    fn answered(
        &mut self,
        now: Nanos,
        agent: &AgentId,
        command: CommandId,
        answer: Result<(), String>,
        out: &mut Vec<Action>,
    ) {
        let Some(lane) = self.lanes.get_mut(agent) else { return };
        // An answer that came twice, or to a case that is given up, finds no order.
        let Some(order) = lane.unanswered.remove(&command) else { return };
        let Some(held) = lane.held.as_mut().filter(|held| held.case == order.case()) else {
            return;
        };
        match (order, answer) {
            (Order::Prepare(case), Ok(())) => {
                if matches!(held.stage, Stage::Preparing { .. }) {
                    self.begin(now, agent, case, out);
                }
            }
            (Order::Prepare(_) | Order::Begin(_), Err(reason)) => {
                held.mark_unavailable(now, reason);
                self.finish(now, agent, EndReason::Unavailable, out);
            }
            // An agent that refused to prepare may hold nothing that it could finish.
            (Order::Finish(..), Ok(())) | (Order::Finish(_, EndReason::Unavailable), Err(_)) => {
                self.record(now, agent, out);
            }
            (Order::Finish(..), Err(reason)) => self.lose(now, agent, reason, out),
            (Order::Begin(_), Ok(())) | (Order::AbortRanks(_), _) => {}
        }
    }

    fn begin(&mut self, now: Nanos, agent: &AgentId, case: CaseRef, out: &mut Vec<Action>) {
        let cap = self.cases.get(&case.index).map_or(Nanos::ZERO, |facts| facts.cap);
        let world = self.cases.get(&case.index).map_or(0, |facts| facts.world);
        let Some(held) = self.held(agent) else { return };
        held.stage = Stage::Running { cap_at: now + cap };
        let exited = held.exited.clone();
        self.send(agent, Order::Begin(case), out);
        // Ranks that were ready and died before they could be told to begin.
        if all_gone(&exited, world) {
            self.finish(now, agent, EndReason::RanksGone, out);
        }
    }

    fn finish(&mut self, now: Nanos, agent: &AgentId, why: EndReason, out: &mut Vec<Action>) {
        let by = now + self.patience.finish;
        let Some(held) = self.held(agent) else { return };
        if matches!(held.stage, Stage::Finishing { .. }) {
            return;
        }
        held.stage = Stage::Finishing { because: why, by };
        let case = held.case;
        self.send(agent, Order::Finish(case, why), out);
    }

    /// The case is healed: it becomes history, or stays pending when the user cut it short.
    fn record(&mut self, now: Nanos, agent: &AgentId, out: &mut Vec<Action>) {
        let Some(lane) = self.lanes.get_mut(agent) else { return };
        let Some(mut held) = lane.held.take() else { return };
        // What was sent to this case and never answered is settled with it.
        lane.unanswered.retain(|_, order| order.case() != held.case);
        let because = held.because().unwrap_or(EndReason::RanksGone);
        held.mark_ended(now, because);
        let fate = match because {
            EndReason::Interrupted => Fate::Interrupted,
            _ => Fate::Done,
        };
        let (agent, case, events) = (agent.clone(), held.case, held.events);
        out.push(Action::Record { agent, case, events, fate });
    }

    fn interrupt(&mut self, now: Nanos, out: &mut Vec<Action>) {
        self.interrupted = true;
        for agent in self.lanes.keys().cloned().collect::<Vec<_>>() {
            self.finish(now, &agent, EndReason::Interrupted, out);
        }
    }

    fn lose(&mut self, now: Nanos, agent: &AgentId, reason: String, out: &mut Vec<Action>) {
        if !self.lanes.contains_key(agent) {
            return;
        }
        self.lose_case(now, agent, &reason, out);
        self.lanes.remove(agent);
        out.push(Action::Replace { agent: agent.clone(), reason });
    }

    /// Takes the case from a lane whose agent cannot finish it.
    fn lose_case(&mut self, now: Nanos, agent: &AgentId, reason: &str, out: &mut Vec<Action>) {
        let Some(mut held) = self.lanes.get_mut(agent).and_then(|lane| lane.held.take()) else {
            return;
        };
        held.mark_ended(now, EndReason::AgentLost);
        let (case, reason) = (held.case, reason.to_owned());
        let again = self.cases.get(&case.index).is_some_and(|c| case.attempt < c.last_attempt);
        let fate = if self.interrupted {
            Fate::Interrupted
        } else if again {
            self.queue.push_front(CaseRef { index: case.index, attempt: case.attempt + 1 });
            Fate::Retried { reason }
        } else {
            Fate::Lost { reason }
        };
        out.push(Action::Record { agent: agent.clone(), case, events: held.events, fate });
    }

    fn pass_deadlines(&mut self, now: Nanos, out: &mut Vec<Action>) {
        for agent in self.lanes.keys().cloned().collect::<Vec<_>>() {
            if self.lanes[&agent].lost_at.is_some_and(|at| at <= now) {
                self.lose(now, &agent, "its stream ended and its lease is over".to_owned(), out);
                continue;
            }
            let patience = self.patience.clone();
            let Some(held) = self.held(&agent) else { continue };
            match held.stage {
                Stage::Preparing { by } if by <= now => {
                    let waited = patience.prepare;
                    held.mark_unavailable(now, format!("the ranks were not ready within {waited}"));
                    self.finish(now, &agent, EndReason::Unavailable, out);
                }
                Stage::Running { cap_at } if cap_at <= now => {
                    self.finish(now, &agent, EndReason::Cap, out);
                }
                Stage::Finishing { by, .. } if by <= now => {
                    let waited = patience.finish;
                    let reason = format!("it did not heal and audit the case within {waited}");
                    self.lose(now, &agent, reason, out);
                }
                _ => {}
            }
        }
    }

    fn hand_out(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if self.interrupted {
            return;
        }
        let prepared_by = now + self.patience.prepare;
        for agent in self.lanes.keys().cloned().collect::<Vec<_>>() {
            let Some(lane) = self.lanes.get_mut(&agent).filter(|lane| lane.free()) else {
                continue;
            };
            let Some(case) = self.queue.pop_front() else { return };
            lane.held = Some(Held::new(case, prepared_by));
            out.push(Action::CaseBegan { agent: agent.clone(), case });
            self.send(&agent, Order::Prepare(case), out);
        }
    }

    fn send(&mut self, agent: &AgentId, order: Order, out: &mut Vec<Action>) {
        let command = self.number_command();
        let Some(lane) = self.lanes.get_mut(agent) else { return };
        lane.unanswered.insert(command, order.clone());
        // Without a stream it waits: whatever is unanswered is sent when the agent is back.
        if lane.lost_at.is_none() {
            out.push(Action::Send { agent: agent.clone(), command, order });
        }
    }
}

/// Whether a fault stops ranks until the end of the case.
fn stops_for_good(fault: &FaultPlan) -> bool {
    matches!(fault.kind, FaultKind::Stop(_)) && fault.lasts.is_none()
}

fn all_gone(exited: &BTreeSet<Rank>, world: u32) -> bool {
    (0..world).all(|rank| exited.contains(&rank))
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
