//! The command that runs one case again.

use ringbreaker_scenarios::case::CasePlan;

use crate::history::RunHeader;

/// Flags with a value that are replaced or that say nothing about what happens in the case.
const DROPPED: &[&str] = &[
    "--only",
    "--seed",
    "--backend",
    "--resume",
    "--record",
    "--lanes",
    "--listen",
    "--agents",
    "--format",
    "--dir",
    "--state",
];
/// The same without a value.
const DROPPED_SWITCHES: &[&str] = &["--quiet", "-q"];

/// The run's own command line with backend and seed made explicit, narrowed to this case. Flags
/// that shape the plan (`--set`, `--repeat`) stay, because case numbers depend on them.
pub(super) fn command(header: &RunHeader, plan: &CasePlan) -> String {
    let mut words = vec!["ringbreaker".to_owned(), "run".to_owned(), header.scenario.clone()];
    words.extend(kept_flags(&header.command, &header.scenario));
    words.extend(["--backend".to_owned(), plan.backend.to_string()]);
    words.extend(["--seed".to_owned(), header.seed.to_string()]);
    words.extend(["--only".to_owned(), format!("case={}", plan.index)]);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Everything after the subcommand but the scenario and what is dropped.
fn kept_flags(command: &[String], scenario: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let given = command.iter().position(|word| word == scenario);
    let mut words = command
        .iter()
        .enumerate()
        .skip(2)
        .filter(|(at, _)| Some(*at) != given)
        .map(|(_, word)| word);
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        if DROPPED.contains(&name) {
            if name == word {
                words.next();
            }
        } else if !DROPPED_SWITCHES.contains(&name) {
            kept.push(word.clone());
        }
    }
    kept
}

/// As a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
