//! A proof for people.

use ringbreaker_agent::rank::nccl::names::Trace;

use super::{Proof, SettingProof};
use crate::cli::documents::{print as out, tell};

/// Prints what was looked at, then one line a setting.
pub(super) fn print(proof: &Proof) {
    let mut lines = Vec::new();
    for library in &proof.libraries {
        let remark = match library.remark.as_str() {
            "" => String::new(),
            remark => format!(" ({remark})"),
        };
        lines.push(match &library.path {
            Some(path) => format!("{}: {path}{remark}", library.title),
            None => format!("{}: not on this machine", library.title),
        });
    }
    for (path, there) in &proof.files {
        lines.push(format!("{path}: {}", if *there { "read" } else { "not there" }));
    }
    lines.push(String::new());
    let columns: Vec<String> = proof.libraries.iter().map(|l| l.what.to_owned()).collect();
    let width = |of: fn(&SettingProof) -> usize| proof.settings.iter().map(of).max().unwrap_or(0);
    let name = width(|s| s.name.len()).clamp(7, 56);
    let value = width(|s| typed(s).chars().count()).clamp(8, 30);
    lines.push(format!(
        "{:<name$}  {}  {:<value$}  from",
        "setting",
        columns.join("  "),
        "in force"
    ));
    for setting in &proof.settings {
        let found = columns.iter().zip(&setting.contained).map(|(column, found)| {
            let word = match found {
                Some(Trace::Whole) => "yes",
                Some(Trace::Tail) => "perhaps",
                Some(Trace::Absent) => "no",
                None => "-",
            };
            format!("{word:<width$}", width = column.len())
        });
        let found = found.collect::<Vec<_>>().join("  ");
        let from = setting.in_force.as_ref().map_or_else(String::new, |f| f.from());
        let remark = if setting.remark.is_empty() {
            String::new()
        } else {
            format!("  ! {}", setting.remark)
        };
        let line =
            format!("{:<name$}  {found}  {:<value$}  {from}{remark}", setting.name, typed(setting));
        lines.push(line.trim_end().to_owned());
    }
    out(&lines.join("\n"));
    if proof.libraries.iter().all(|library| library.path.is_none()) {
        tell("\nno library was found, so nothing is proved; name one with --nccl or --torch");
    }
}

fn typed(setting: &SettingProof) -> String {
    setting.in_force.as_ref().map_or_else(|| "-".to_owned(), |f| f.value.clone())
}
