//! What a scenario file says, after it was found right.

use std::collections::BTreeMap;

use crate::{
    case::{ClusterPlan, Node, Rank, Trigger, WorkloadPlan},
    fault::FaultKind,
    problem::Problem,
    units::Nanos,
    words::{Backend, Detector, Outcome},
};

/// A scenario: one file, found right. `plan::plan` expands it to cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name: that of the file, without directory and `.toml`.
    pub name: String,
    /// The file, as the caller named it; problems name it.
    pub file: String,
    /// The text of the file, for the record.
    pub text: String,
    /// One sentence.
    pub summary: String,
    /// More than one sentence.
    pub description: Option<String>,
    /// What ranks run; none: the caller decides.
    pub backend: Option<Backend>,
    /// How often each case is repeated.
    pub repetitions: u32,
    /// Whether there is a column without faults beside those with.
    pub clean: bool,
    /// When a case is ended by the harness; none: decided case by case, always longer than its
    /// longest deadline.
    pub case_cap: Option<Nanos>,
    /// Nodes and ranks.
    pub cluster: ClusterPlan,
    /// What ranks do.
    pub workload: WorkloadPlan,
    /// The settings, in the order of the file; those with several values span the matrix.
    pub settings: Vec<Setting>,
    /// Settings of single ranks, over those of all.
    pub per_rank: BTreeMap<Rank, BTreeMap<String, String>>,
    /// What is odd about the settings, and yet allowed, each with its place.
    pub warnings: Vec<Problem>,
    /// The faults, in the order of the file.
    pub faults: Vec<FaultSpec>,
    /// What must hold in every column with a fault (or, in a scenario without faults, in all).
    pub expect: Expect,
    /// Exceptions from it; a later one wins, key by key.
    pub exceptions: Vec<Exception>,
}

/// A setting and its values, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name: upper case for an environment variable, lower case for one of ringbreaker's own.
    pub name: String,
    /// At least one.
    pub values: Vec<String>,
}

impl Setting {
    /// Whether it has several values, and so adds a dimension to the matrix.
    pub fn is_swept(&self) -> bool {
        self.values.len() > 1
    }
}

/// A fault as the file gives it: targets may be words that the seed decides.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSpec {
    /// Its name, written or made from its kind; no two faults share one.
    pub name: String,
    /// The matrix column it belongs to: its group, or its own name.
    pub column: String,
    /// Kind and parameters.
    pub kind: FaultKind,
    /// When it is injected.
    pub when: Trigger,
    /// What it is aimed at.
    pub target: TargetSpec,
    /// When it is healed, counted from its effect; none: at the end of the case.
    pub lasts: Option<Nanos>,
    /// How long it may live without being renewed.
    pub lease: Nanos,
    /// What must hold in its column, over the scenario's own.
    pub expect: Expect,
}

impl FaultSpec {
    /// Whether it takes the port on which rank 0 waits for the others.
    pub fn takes_rendezvous_port(&self) -> bool {
        matches!(&self.kind, FaultKind::TakePort(port) if port.port.is_none())
    }
}

/// What a fault is aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSpec {
    /// Any one.
    One,
    /// Fewer than half, but at least one.
    Minority,
    /// Every one.
    All,
    /// These ranks (or, for a fault of nodes, the nodes they run on).
    Ranks(Vec<Rank>),
    /// This node: its ranks, itself, or all its links.
    Node(Node),
    /// Both directions between two nodes.
    Link(Node, Node),
    /// One direction, from the first to the second.
    OneWay(Node, Node),
}

/// Expectations that may be given in part; what is not given is taken from the more general ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// The outcome is one of these; of an empty list: any.
    pub outcome: Option<Vec<Outcome>>,
    /// The first detector is one of these; of an empty list: any.
    pub detector: Option<Vec<Detector>>,
    /// From effect to first detection.
    pub detected_within: Option<Limit>,
    /// From effect until the last rank was gone.
    pub ended_within: Option<Limit>,
    /// Nothing of the job is left.
    pub no_leftovers: Option<bool>,
}

/// How long something may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Any time, also for ever: `"any"`.
    Any,
    /// This long.
    Within(Nanos),
}

impl Limit {
    /// The time, if there is a limit.
    pub fn time(self) -> Option<Nanos> {
        match self {
            Limit::Any => None,
            Limit::Within(time) => Some(time),
        }
    }
}

/// Expectations of some cells of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Exception {
    /// The columns it is about; none: all.
    pub columns: Option<Vec<String>>,
    /// The values of settings it is about; a setting that is not here may have any value.
    pub settings: BTreeMap<String, Vec<String>>,
    /// What must hold there.
    pub expect: Expect,
}

impl Exception {
    /// Whether it is about this cell.
    pub fn is_about(&self, column: &str, settings: &BTreeMap<String, String>) -> bool {
        self.columns.as_ref().is_none_or(|names| names.iter().any(|n| n == column))
            && self
                .settings
                .iter()
                .all(|(name, values)| settings.get(name).is_some_and(|v| values.contains(v)))
    }
}

/// The column without faults.
pub const CLEAN: &str = "clean";

impl Scenario {
    /// The matrix columns, in the order of the file, `clean` first if there is one.
    pub fn columns(&self) -> Vec<String> {
        let mut columns = Vec::new();
        if self.clean || self.faults.is_empty() {
            columns.push(CLEAN.to_owned());
        }
        for fault in &self.faults {
            if !columns.contains(&fault.column) {
                columns.push(fault.column.clone());
            }
        }
        columns
    }
}
