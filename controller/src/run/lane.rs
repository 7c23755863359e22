//! One lane of a run, as the decision core sees it: an agent, the case it holds, and the commands
//! it has not answered.

use std::collections::{BTreeMap, BTreeSet};

use ringbreaker_scenarios::{
    case::Rank,
    event::{EndReason, Event, What},
    units::Nanos,
};

/// The name that an agent gave itself; kept across reconnects.
pub(crate) type AgentId = String;
/// Number of a command; unique within a run.
pub(crate) type CommandId = u64;

/// One attempt at a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CaseRef {
    /// The case.
    pub(crate) index: u32,
    /// 1 for the first attempt.
    pub(crate) attempt: u32,
}

/// What an agent is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Build the nodes, start the ranks.
    Prepare(CaseRef),
    /// Let the ranks initialise.
    Begin(CaseRef),
    /// Tell all ranks to abort.
    AbortRanks(CaseRef),
    /// Kill what is left, heal, audit.
    Finish(CaseRef, EndReason),
}

impl Order {
    /// The case that it is about.
    pub(crate) fn case(&self) -> CaseRef {
        match self {
            Order::Prepare(case)
            | Order::Begin(case)
            | Order::AbortRanks(case)
            | Order::Finish(case, _) => *case,
        }
    }
}

/// An agent and what it is busy with.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Set while the stream is gone: when the agent counts as lost.
    pub(crate) lost_at: Option<Nanos>,
    /// Sent again after a reconnect, in this order.
    pub(crate) unanswered: BTreeMap<CommandId, Order>,
    /// The case in flight.
    pub(crate) held: Option<Held>,
}

impl Lane {
    /// Whether a case can be handed to it.
    pub(crate) fn free(&self) -> bool {
        self.held.is_none() && self.lost_at.is_none()
    }

    /// When something happens here by itself.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let stage = self.held.as_ref().map(|held| match held.stage {
            Stage::Preparing { by } | Stage::Finishing { by, .. } => by,
            Stage::Running { cap_at } => cap_at,
        });
        [self.lost_at, stage].into_iter().flatten().min()
    }
}

/// How far a case has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// `Prepare` is sent.
    Preparing { by: Nanos },
    /// `Begin` is sent.
    Running { cap_at: Nanos },
    /// `Finish` is sent.
    Finishing { because: EndReason, by: Nanos },
}

/// A case in flight, with its history so far.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) case: CaseRef,
    pub(crate) stage: Stage,
    pub(crate) events: Vec<Event>,
    pub(crate) exited: BTreeSet<Rank>,
    /// Faults that were seen to take effect.
    pub(crate) witnessed: BTreeSet<u32>,
    /// Faults that cannot be felt.
    pub(crate) unexposed: BTreeSet<u32>,
    pub(crate) detected: bool,
    pub(crate) abort_told: bool,
}

impl Held {
    /// A case that is being handed out.
    pub(crate) fn new(case: CaseRef, prepared_by: Nanos) -> Held {
        Held {
            case,
            stage: Stage::Preparing { by: prepared_by },
            events: Vec::new(),
            exited: BTreeSet::new(),
            witnessed: BTreeSet::new(),
            unexposed: BTreeSet::new(),
            detected: false,
            abort_told: false,
        }
    }

    /// Why it was finished, once it was.
    pub(crate) fn because(&self) -> Option<EndReason> {
        match self.stage {
            Stage::Finishing { because, .. } => Some(because),
            Stage::Preparing { .. } | Stage::Running { .. } => None,
        }
    }

    /// Notes that the case could not be carried out, unless the agent said so itself.
    pub(crate) fn mark_unavailable(&mut self, at: Nanos, reason: String) {
        if !self.events.iter().any(|e| matches!(e.what, What::Unavailable { .. })) {
            self.events.push(Event { at, rank: None, what: What::Unavailable { reason } });
        }
    }

    /// Notes the end, unless the agent did.
    pub(crate) fn mark_ended(&mut self, at: Nanos, because: EndReason) {
        if !self.events.iter().any(|e| matches!(e.what, What::Ended { .. })) {
            self.events.push(Event { at, rank: None, what: What::Ended { because } });
        }
    }
}
