//! Processes of ours that have lost their agent.

use std::collections::BTreeMap;

use super::{Inventory, Kind, Whose};
use crate::sys::{
    census::{self, Listed},
    mount,
};

/// What the name of our executable begins with.
const PROGRAM: &str = "ringbreaker";

/// Adds every process that only an agent starts, or that lives in a virtual node, and that descends
/// from no process of ours any more.
pub(super) fn look(listed: &[Listed], helpers: &[String], inventory: &mut Inventory) {
    let by_pid: BTreeMap<u32, &Listed> = listed.iter().map(|one| (one.pid, one)).collect();
    for one in listed {
        let helper =
            is_ours(one) && one.arguments.get(1).is_some_and(|word| helpers.contains(word));
        let in_node = !helper && census::sees_mount(one.pid, mount::SOURCE);
        if !(helper || in_node) || descends_from_us(one, &by_pid) {
            continue;
        }
        let place = if in_node { " in a virtual node" } else { "" };
        let line = one.arguments.join(" ");
        let what = format!("process {} ({line}){place} has lost its agent", one.pid);
        let remedy = match one.arguments.get(1).map(String::as_str) {
            Some("guard") => "it is healing; look again in a moment".to_owned(),
            _ => format!("`ringbreaker recover`, else `kill {}`", one.pid),
        };
        inventory.add(Whose::Ours, Kind::Process, what, remedy);
    }
}

fn is_ours(one: &Listed) -> bool {
    one.program.as_deref().is_some_and(|name| name.starts_with(PROGRAM))
}

fn descends_from_us(one: &Listed, by_pid: &BTreeMap<u32, &Listed>) -> bool {
    let mut at = one.parent;
    // A process cannot descend from itself, but this is a picture of many moments.
    for _ in 0..by_pid.len() {
        match by_pid.get(&at) {
            Some(parent) if is_ours(parent) => return true,
            Some(parent) => at = parent.parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: u32, parent: u32, program: &str, subcommand: &str) -> Listed {
        Listed {
            pid,
            parent,
            command: program.to_owned(),
            arguments: vec![program.to_owned(), subcommand.to_owned()],
            program: Some(program.to_owned()),
        }
    }

    #[test]
    fn a_helper_is_left_over_when_no_process_of_ours_stands_above_it() {
        // Process ids of this test are beyond what the kernel gives, so none of them is looked at.
        let all = [
            listed(1 << 23, 0, "init", ""),
            listed((1 << 23) + 1, 1 << 23, "ringbreaker", "agent"),
            listed((1 << 23) + 2, (1 << 23) + 1, "ringbreaker", "rank"),
            listed((1 << 23) + 3, 1 << 23, "ringbreaker", "rank"),
            listed((1 << 23) + 4, 1 << 23, "other", "rank"),
        ];
        let mut inventory = Inventory::default();
        look(&all, &["rank".to_owned()], &mut inventory);
        let [orphan] = inventory.found.as_slice() else { panic!("{inventory:#?}") };
        assert!(orphan.what.contains(&((1 << 23) + 3).to_string()), "{orphan:?}");
    }
}
