//! `settings --ladder`: every timer in order, and those that can never fire.

use ringbreaker_scenarios::settings::ladder::{
    self, Decider, Framework, Inversion, Ladder, Rung, Stack,
};

use super::{
    super::documents::{print, print_json},
    Page, SettingsArgs, StackWord, given,
};
use crate::{error::Error, exit};

/// Prints the ladder of the settings that are named, or in force.
pub(super) fn main(args: &SettingsArgs) -> Result<u8, Error> {
    let mut settings = given::settings(args)?;
    if args.env_file.is_none() && args.names.is_empty() {
        settings.extend(given::sources(args.nccl_version).0.kernel_set());
    }
    let framework = match args.stack {
        StackWord::Rank => Framework::Rank,
        StackWord::ProcessGroupNccl => Framework::ProcessGroupNccl,
        StackWord::Nccl2 => Framework::Nccl2,
        StackWord::Gloo => Framework::Gloo,
    };
    let stack = Stack { framework, torchrun: args.torchrun, versions: args.versions() };
    let ladder = ladder::ladder(&settings, stack);
    match args.format {
        Page::Json => {
            let json = serde_json::to_value(&ladder);
            print_json(&json.expect("invariant: a ladder has only string keys"));
        }
        _ => print(&text(&ladder)),
    }
    Ok(exit::PASS)
}

fn text(ladder: &Ladder) -> String {
    let rungs = || ladder.situations.iter().flat_map(|situation| &situation.rungs);
    let when = rungs().map(|rung| rung.when().len()).max().unwrap_or(0);
    let name = rungs().map(|rung| rung.name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for situation in &ladder.situations {
        lines.push(format!("{}: {}", situation.name, situation.title));
        for rung in &situation.rungs {
            let does =
                if rung.does.is_empty() { String::new() } else { format!(": {}", rung.does) };
            lines.push(
                format!("  {:>when$}  {:<name$}{does}", rung.when(), rung.name)
                    .trim_end()
                    .to_owned(),
            );
            let why =
                [rung.reason.clone(), deciders(rung)].into_iter().filter(|text| !text.is_empty());
            lines.push(format!("  {:when$}    {}", "", why.collect::<Vec<_>>().join("; ")));
        }
        lines.push(String::new());
    }
    match ladder.inversions.as_slice() {
        [] => lines.push("no timer is in the way of another".to_owned()),
        inversions => {
            // What somebody set in vain comes first.
            let (vain, other): (Vec<_>, Vec<_>) = inversions.iter().partition(|one| one.in_vain);
            lines.extend(told("!", &vain));
            lines.extend(told("-", &other));
        }
    }
    lines.join("\n")
}

/// Each sentence once, with the situations that it is about.
fn told(mark: &str, inversions: &[&Inversion]) -> Vec<String> {
    let mut sentences: Vec<(&str, Vec<&str>)> = Vec::new();
    for inversion in inversions {
        match sentences.iter_mut().find(|(message, _)| *message == inversion.message) {
            Some((_, situations)) => situations.push(inversion.situation),
            None => sentences.push((&inversion.message, vec![inversion.situation])),
        }
    }
    let line = |(message, situations): (&str, Vec<&str>)| {
        format!("{mark} {}: {message}", situations.join(", "))
    };
    sentences.into_iter().map(line).collect()
}

fn deciders(rung: &Rung) -> String {
    let shown = |decider: &Decider| {
        let Decider { name, value, set } = decider;
        if *set { format!("{name}={value}") } else { format!("{name}={value} (default)") }
    };
    rung.deciders.iter().map(shown).collect::<Vec<_>>().join(", ")
}
