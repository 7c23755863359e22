//! Processes that hold a GPU although whoever started them is gone.
//!
//! A CUDA process has /dev/nvidia-uvm open; that is seen in /proc, also inside of containers, where
//! nvidia-smi lists nobody. How much memory it holds is nvidia-smi's word, where there is one.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{Inventory, Kind, Whose};
use crate::{
    gpu::{self, DRIVER},
    sys::census::{self, Listed},
};

/// What every process with a CUDA context has open.
const UVM: &str = "/dev/nvidia-uvm";
/// Services that keep the driver open and are nobody's job.
const SERVICES: &[&str] = &["nvidia-persiste", "nv-hostengine"];
/// How long nvidia-smi may take.
const ANSWER: Duration = Duration::from_secs(20);

pub(super) fn look(listed: &[Listed], inventory: &mut Inventory) {
    if !Path::new(DRIVER).exists() {
        inventory
            .unseen
            .push(format!("GPU memory: no NVIDIA driver is loaded ({DRIVER} is not there)"));
        return;
    }
    let held = match memory() {
        Ok(held) => held,
        Err(why) => {
            inventory.unseen.push(format!("how much GPU memory is held: {why}"));
            BTreeMap::new()
        }
    };
    let orphans = listed.iter().filter(|one| is_orphan(one));
    for one in orphans.filter(|one| census::has_device_open(one.pid, Path::new(UVM))) {
        let memory = held.get(&one.pid);
        let memory = memory.map_or_else(|| "an unknown amount".into(), |mib| format!("{mib} MiB"));
        let Listed { pid, command, .. } = one;
        let what = format!(
            "process {pid} ({command}), whose parent is gone, has the GPU open and holds {memory} of it"
        );
        inventory.add(Whose::Job, Kind::Gpu, what, format!("`kill {pid}` if its job is over"));
    }
}

/// Taken over by the first process. Kernel threads have no arguments.
fn is_orphan(one: &Listed) -> bool {
    one.parent == 1 && !one.arguments.is_empty() && !SERVICES.contains(&one.command.as_str())
}

/// MiB by process id.
fn memory() -> Result<BTreeMap<u32, u64>, String> {
    let query = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path).map(|directory| directory.join("nvidia-smi"));
    let program = program.into_iter().find(|program| program.is_file());
    let program = program.ok_or_else(|| "nvidia-smi is not there".to_owned())?;
    match gpu::ask(&program, &query, ANSWER) {
        Ok(Some(answer)) => Ok(answer.lines().filter_map(line).collect()),
        Ok(None) => Err(format!("nvidia-smi did not answer within {ANSWER:?}")),
        Err(error) => Err(format!("nvidia-smi: {error}")),
    }
}

fn line(line: &str) -> Option<(u32, u64)> {
    let (pid, mib) = line.split_once(',')?;
    Some((pid.trim().parse().ok()?, mib.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nvidia_smi_are_understood_and_others_left_out() {
        assert_eq!(line("4711, 1024"), Some((4711, 1024)));
        assert_eq!(line("4711, [N/A]"), None);
        assert_eq!(line("No running processes found"), None);
    }

    #[test]
    fn services_of_the_driver_and_kernel_threads_are_no_orphans() {
        let one = |command: &str, parent, arguments: &[&str]| Listed {
            pid: 7,
            parent,
            command: command.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            program: None,
        };
        assert!(is_orphan(&one("python3", 1, &["python3"])));
        assert!(!is_orphan(&one("python3", 100, &["python3"])));
        assert!(!is_orphan(&one("nvidia-persiste", 1, &["nvidia-persistenced"])));
        assert!(!is_orphan(&one("kworker", 1, &[])));
    }
}
