//! From a scenario to its cases: everything is decided here, before the first fault.
//!
//! The controller calls [`plan`] with a seed and runs what it gets; `ringbreaker show` prints it
//! with [`describe`]. The same scenario, seed and options give the same cases, to the last bit. An
//! added fault or setting value does not change the draws of the others.

mod describe;
mod draw;
mod expect;
mod filter;
mod matrix;
mod resolve;
mod target;

use std::collections::BTreeMap;

pub use describe::describe;

use crate::{
    case::{CasePlan, FaultPlan, RankPlan},
    problem::{Collector, Problems},
    scenario::{FaultSpec, Scenario},
    settings::own,
    units::Nanos,
    words::Backend,
};

/// More cases than this are refused: at one second each they would run for more than a day.
pub const MAX_CASES: u128 = 100_000;
/// The rendezvous port of a case whose fault takes that port, when the scenario names none. It is
/// the port that PyTorch's launchers use by default.
pub const DEFAULT_RENDEZVOUS_PORT: u16 = 29500;
/// What a case may take beyond its deadlines, its pauses and its faults.
const SLACK: Nanos = Nanos::from_secs(5);

/// What a plan depends on beside the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides targets given as words, and each case's own draws.
    pub seed: u64,
    /// The backend that the user demands; none: the scenario's, else `default_backend`.
    pub backend: Option<Backend>,
    /// What ranks run when neither the user nor the scenario says.
    pub default_backend: Backend,
    /// In place of the scenario's number of repetitions.
    pub repetitions: Option<u32>,
    /// Keep only cases that one of these is about: each is words of which all must match, a word
    /// being a case number (`7`), a range of them (`3-9`) or a part of the column's or row's text.
    /// Empty: keep all. Kept cases keep their numbers and draws.
    pub only: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0,
            backend: None,
            default_backend: Backend::Host,
            repetitions: None,
            only: Vec::new(),
        }
    }
}

/// Expands a scenario to its cases: repetition by repetition, in it column by column, in it row by
/// row, so that a run that is cut short has seen the whole matrix as early as possible.
///
/// # Errors
///
/// Too many cases, or a filter that keeps none.
pub fn plan(scenario: &Scenario, options: &Options) -> Result<Vec<CasePlan>, Problems> {
    let mut problems = Collector::new(&scenario.file, &scenario.text);
    let repetitions = options.repetitions.unwrap_or(scenario.repetitions).max(1);
    let count = matrix::size(scenario, repetitions);
    if count > MAX_CASES {
        problems.nowhere(
            format!("the plan has {count} cases"),
            format!("at most {MAX_CASES} cases; ask for fewer repetitions or sweep fewer values"),
        );
        return problems.finish(None);
    }
    let rows = matrix::rows(&scenario.settings);
    let columns: Vec<Column> =
        scenario.columns().iter().map(|c| column(scenario, c, options.seed)).collect();
    let mut cases = Vec::new();
    for repetition in 1..=repetitions {
        for column in &columns {
            for row in &rows {
                let index = u32::try_from(cases.len()).expect("at most MAX_CASES cases");
                cases.push(case(scenario, options, index, column, row, repetition));
            }
        }
    }
    filter::keep(&mut cases, &options.only, &mut problems);
    problems.finish(Some(cases))
}

/// A matrix column with its faults resolved.
struct Column {
    name: String,
    faults: Vec<FaultPlan>,
    takes_rendezvous_port: bool,
}

fn column(scenario: &Scenario, name: &str, seed: u64) -> Column {
    let specs: Vec<&FaultSpec> = scenario.faults.iter().filter(|f| f.column == name).collect();
    let faults: Vec<FaultPlan> =
        (0..).zip(&specs).map(|(id, spec)| fault(scenario, id, spec, seed)).collect();
    Column {
        name: name.to_owned(),
        takes_rendezvous_port: specs.iter().any(|s| s.takes_rendezvous_port()),
        faults,
    }
}

fn fault(scenario: &Scenario, id: u32, spec: &FaultSpec, seed: u64) -> FaultPlan {
    let target = target::resolve(spec, &scenario.cluster, &mut draw::of_fault(seed, &spec.name));
    FaultPlan {
        id,
        label: format!("{} {target}", spec.kind.name().replace('_', " ")),
        kind: spec.kind.clone(),
        when: spec.when,
        target,
        lasts: spec.lasts,
        lease: spec.lease,
    }
}

fn case(
    scenario: &Scenario,
    options: &Options,
    index: u32,
    column: &Column,
    row: &matrix::Row,
    repetition: u32,
) -> CasePlan {
    let mut cluster = scenario.cluster.clone();
    if column.takes_rendezvous_port {
        cluster.rendezvous_port.get_or_insert(DEFAULT_RENDEZVOUS_PORT);
    }
    let ranks: Vec<RankPlan> = (0..cluster.nodes * cluster.ranks_per_node)
        .map(|rank| resolve::rank(&row.settings, scenario.per_rank.get(&rank)))
        .collect();
    let mut plan = CasePlan {
        index,
        scenario: scenario.name.clone(),
        column: column.name.clone(),
        row: row.swept.clone(),
        repetition,
        seed: 0,
        backend: options.backend.or(scenario.backend).unwrap_or(options.default_backend),
        cluster,
        workload: scenario.workload.clone(),
        limits: resolve::limits(&row.settings),
        coordinated_abort: own::flag(&row.settings, "coordinated_abort"),
        cap: scenario.case_cap.unwrap_or_else(|| cap(scenario, &ranks, &column.faults)),
        expect: expect::of_cell(scenario, &column.name, &row.settings),
        settings: row.settings.clone(),
        ranks,
        faults: column.faults.clone(),
    };
    plan.seed = draw::seed_of_case(options.seed, &plan.column, &plan.row_label(), repetition);
    plan
}

/// The default cap: the time in which every deadline can pass twice, with the pauses of the
/// workload and the life of the longest fault, and some slack.
fn cap(scenario: &Scenario, ranks: &[RankPlan], faults: &[FaultPlan]) -> Nanos {
    let deadline = ranks.iter().map(|r| resolve::longest_deadline(&r.watchdog)).max();
    let deadline = deadline.unwrap_or(Nanos::ZERO);
    let work = &scenario.workload;
    let pauses =
        work.interval.0.saturating_mul(u64::from(work.iterations) + u64::from(work.warmup));
    let fault = faults.iter().map(resolve::span_of_fault).max().unwrap_or(Nanos::ZERO);
    deadline + deadline + Nanos(pauses) + fault + SLACK
}

/// A cell's settings by name.
type Values = BTreeMap<String, String>;
