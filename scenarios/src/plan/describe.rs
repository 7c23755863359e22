//! A plan as text: every case, and the whole fault schedule.

use std::collections::BTreeMap;

use crate::{
    case::{CasePlan, CheckpointPlan, FaultPlan},
    exposure::{Exposure, Transports, exposure},
    fault::FaultKind,
    words::{Backend, CheckpointRanks},
};

/// The cases as a table, then every fault with target, trigger, life, lease and undo: all that will
/// be done, and to whom. What `ringbreaker show` prints.
pub fn describe(cases: &[CasePlan]) -> String {
    let Some(first) = cases.first() else { return "no cases\n".to_owned() };
    let columns = columns(cases);
    let mut out = heading(first, cases.len(), columns.len());
    out += "\ncases\n";
    out += &align(&case_rows(cases));
    out += "\nfault schedule\n";
    for (column, faults) in columns {
        out += &format!("  {column}\n");
        if faults.is_empty() {
            out += "    nothing is broken\n";
        }
        for fault in faults {
            out += &schedule(fault);
            out += &unexposed(fault, first.backend);
        }
    }
    out
}

fn heading(case: &CasePlan, cases: usize, columns: usize) -> String {
    let work = &case.workload;
    let collectives: Vec<_> = work.collectives.iter().map(|one| one.word()).collect();
    let sizes: Vec<_> = work.bytes.iter().map(ToString::to_string).collect();
    format!(
        "{}: {cases} {} in {columns} {}, backend {}\n{} nodes x {} ranks; {} of {} {}, {} + {} \
         operations, {} apart\n",
        case.scenario,
        plural("case", cases),
        plural("column", columns),
        case.backend,
        case.cluster.nodes,
        case.cluster.ranks_per_node,
        collectives.join(", "),
        sizes.join(", "),
        work.dtype,
        work.warmup,
        work.iterations,
        work.interval,
    ) + &work.checkpoint.as_ref().map(checkpoint).unwrap_or_default()
}

fn checkpoint(plan: &CheckpointPlan) -> String {
    let CheckpointPlan { every, bytes, ranks } = plan;
    let who = match ranks {
        CheckpointRanks::All => "every rank",
        CheckpointRanks::First => "rank 0",
    };
    format!("a checkpoint of {bytes} by {who} every {every} operations\n")
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// The columns with their faults, in the order in which they come. Faults are the same in all cases
/// of a column.
fn columns(cases: &[CasePlan]) -> Vec<(&str, &[FaultPlan])> {
    let mut seen = BTreeMap::new();
    for (position, case) in cases.iter().enumerate() {
        seen.entry(case.column.as_str()).or_insert((position, case.faults.as_slice()));
    }
    let mut columns: Vec<_> =
        seen.into_iter().map(|(name, (at, faults))| (at, name, faults)).collect();
    columns.sort_by_key(|(at, ..)| *at);
    columns.into_iter().map(|(_, name, faults)| (name, faults)).collect()
}

fn case_rows(cases: &[CasePlan]) -> Vec<[String; 6]> {
    let head = ["case", "column", "settings", "repetition", "cap", "expected"].map(str::to_owned);
    let rows = cases.iter().map(|case| {
        let outcomes: Vec<_> = case.expect.outcome.iter().map(|one| one.word()).collect();
        [
            case.index.to_string(),
            case.column.clone(),
            or_dash(case.row_label()),
            case.repetition.to_string(),
            case.cap.to_string(),
            or_dash(outcomes.join(" or ")),
        ]
    });
    std::iter::once(head).chain(rows).collect()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Rows with every column as wide as its widest text.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(text, width)| format!("{text:width$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// What the plan tells of a fault that nobody can feel: such a case is refused before it begins.
fn unexposed(fault: &FaultPlan, backend: Backend) -> String {
    let transports = Transports::of_backend(backend);
    match exposure(&fault.kind, fault.when, backend, &transports) {
        Exposure::Not(reason) => format!("      cannot be felt: {reason}\n"),
        Exposure::Exposed | Exposure::Unknown => String::new(),
    }
}

fn schedule(fault: &FaultPlan) -> String {
    let life = match (fault.lasts, &fault.kind) {
        (Some(time), _) => format!("heals after {time}"),
        (None, FaultKind::Kill(_)) => "for good".to_owned(),
        (None, _) => "lasts until the case ends".to_owned(),
    };
    format!(
        "    {}: {}; {life}; lease {}; undo: {}\n",
        fault.label,
        fault.when,
        fault.lease,
        fault.kind.undo()
    )
}
