//! The history of a case, sorted into who did what when.
//!
//! Events are ordered by time, then rank: the order in which simultaneous events of different ranks
//! happened to arrive changes nothing. Events about ranks that the plan does not have are ignored.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::{CasePlan, Rank},
    event::{Detection, EndReason, Event, ExitStatus, Isolation, OpSummary, What},
    units::Nanos,
    words::Phase,
};

use crate::history::CaseHistory;

/// Everything that a judgement may rest on.
pub(super) struct Evidence<'a> {
    pub(super) plan: &'a CasePlan,
    /// By time, then rank.
    pub(super) events: Vec<&'a Event>,
    pub(super) traces: BTreeMap<Rank, Trace<'a>>,
    pub(super) unavailable: Option<&'a str>,
    pub(super) began: Option<Nanos>,
    pub(super) steady: Option<Nanos>,
    pub(super) gpu_memory_free: Option<Nanos>,
    pub(super) ended: Option<(Nanos, EndReason)>,
    pub(super) isolation: Option<Isolation>,
    pub(super) transport: Option<&'a str>,
    pub(super) stack: BTreeMap<String, String>,
    pub(super) unread: BTreeMap<String, String>,
}

/// What is known of one rank.
#[derive(Default)]
pub(super) struct Trace<'a> {
    pub(super) last_phase: Option<Phase>,
    pub(super) detection: Option<(Nanos, &'a Detection)>,
    pub(super) abort_began: Option<Nanos>,
    pub(super) abort_ended: Option<(Nanos, i32)>,
    pub(super) exit: Option<Exit>,
    pub(super) ops: Option<&'a OpSummary>,
    pub(super) wrong_data: Option<&'a What>,
}

/// The end of a process.
#[derive(Clone, Copy)]
pub(super) struct Exit {
    pub(super) at: Nanos,
    pub(super) status: ExitStatus,
    pub(super) by_harness: bool,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(history: &'a CaseHistory) -> Evidence<'a> {
        let plan = &history.plan;
        let mut events: Vec<&Event> = history.events.iter().collect();
        events.sort_by_key(|event| (event.at, event.rank));
        let mut evidence = Evidence {
            plan,
            traces: (0..plan.world()).map(|rank| (rank, Trace::default())).collect(),
            unavailable: None,
            began: None,
            steady: None,
            gpu_memory_free: None,
            ended: None,
            isolation: None,
            transport: None,
            stack: BTreeMap::new(),
            unread: BTreeMap::new(),
            events: Vec::new(),
        };
        for event in &events {
            match event.rank {
                Some(rank) => evidence.add_of_rank(rank, event),
                None => evidence.add_of_job(event),
            }
        }
        evidence.events = events;
        evidence
    }

    fn add_of_job(&mut self, event: &'a Event) {
        match &event.what {
            What::Began => self.began = self.began.or(Some(event.at)),
            What::Steady => self.steady = self.steady.or(Some(event.at)),
            What::GpuMemoryFree => self.gpu_memory_free = Some(event.at),
            What::Ended { because } => self.ended = self.ended.or(Some((event.at, *because))),
            What::Prepared { isolation, .. } => self.isolation = Some(*isolation),
            what => self.add_about_environment(what),
        }
    }

    fn add_of_rank(&mut self, rank: Rank, event: &'a Event) {
        let at = event.at;
        self.add_about_environment(&event.what);
        let Some(trace) = self.traces.get_mut(&rank) else { return };
        match &event.what {
            What::PhaseEntered { phase } => trace.last_phase = Some(*phase),
            What::Detected(detection) => {
                trace.detection = trace.detection.or(Some((at, detection)));
            }
            What::AbortBegan => trace.abort_began = trace.abort_began.or(Some(at)),
            What::AbortEnded { code } => {
                trace.abort_ended = trace.abort_ended.or(Some((at, *code)));
            }
            What::RankExited { status, by_harness } => {
                let exit = Exit { at, status: *status, by_harness: *by_harness };
                trace.exit = trace.exit.or(Some(exit));
            }
            What::Ops(summary) => trace.ops = Some(summary),
            what @ What::WrongData { .. } => trace.wrong_data = trace.wrong_data.or(Some(what)),
            _ => {}
        }
    }

    /// Facts that are the same whoever reports them.
    fn add_about_environment(&mut self, what: &'a What) {
        match what {
            What::Unavailable { reason } => {
                self.unavailable = self.unavailable.or(Some(reason));
            }
            What::Stack { versions } => self.stack.extend(versions.clone()),
            What::Transport { name } => self.transport = Some(name),
            What::SettingUnread { name, reason } => {
                self.unread.insert(name.clone(), reason.clone());
            }
            _ => {}
        }
    }
}
