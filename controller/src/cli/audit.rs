//! `audit`: what of ours, or of dead jobs, is left on this machine.

use clap::CommandFactory as _;
use ringbreaker_agent::inventory::{self, Finding, Inventory, Whose};
use serde_json::json;

use super::{
    args::{Cli, Listing, StateDir},
    documents::{print, print_json},
};
use crate::{error::Error, exit, run::config::state_directory};

pub(super) fn main(state: StateDir, format: Listing) -> Result<u8, Error> {
    let state = state_directory(state.state);
    let inventory = inventory::take(&state, &helpers());
    match format {
        Listing::Text => print(&text(&inventory)),
        Listing::Json => print_json(&as_json(&inventory)),
    }
    Ok(if inventory.found.is_empty() { exit::PASS } else { exit::FAIL })
}

/// The hidden subcommands: what only agents start.
fn helpers() -> Vec<String> {
    let command = Cli::command();
    let hidden = command.get_subcommands().filter(|subcommand| subcommand.is_hide_set());
    hidden.map(|subcommand| subcommand.get_name().to_owned()).collect()
}

const fn whose(whose: Whose) -> &'static str {
    match whose {
        Whose::Ours => "ringbreaker",
        Whose::Job => "job",
    }
}

fn text(inventory: &Inventory) -> String {
    let Inventory { found, unseen, agents, stopped } = inventory;
    let mut lines = Vec::new();
    for Finding { whose: of, kind: _, what, remedy } in found {
        lines.push(format!("{}: {what}; {remedy}", whose(*of)));
    }
    lines.extend(unseen.iter().map(|what| format!("not looked at: {what}")));
    lines.extend(stopped.iter().map(ToString::to_string));
    let agents = match agents.len() {
        0 => String::new(),
        n => format!(" ({n} agents are at work; what they hold is in use)"),
    };
    lines.push(match found.len() {
        0 => format!("nothing is left{agents}"),
        1 => format!("1 thing is left{agents}"),
        n => format!("{n} things are left{agents}"),
    });
    lines.join("\n")
}

fn as_json(inventory: &Inventory) -> serde_json::Value {
    let Inventory { found, unseen, agents, stopped } = inventory;
    let finding = |Finding { whose: of, kind, what, remedy }: &Finding| json!({ "whose": whose(*of), "kind": kind.word(), "what": what, "remedy": remedy });
    json!({
        "found": found.iter().map(finding).collect::<Vec<_>>(),
        "not_looked_at": unseen,
        "agents_at_work": agents,
        "stopped": stopped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_start_is_known_by_the_hidden_subcommands() {
        let helpers = helpers();
        for known in ["rank", "guard", "press-memory", "hold-gpu-memory"] {
            assert!(helpers.iter().any(|helper| helper == known), "{known} in {helpers:?}");
        }
        for other in ["run", "agent", "audit"] {
            assert!(!helpers.iter().any(|helper| helper == other), "{other}");
        }
    }
}
