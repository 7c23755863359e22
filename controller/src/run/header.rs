//! What is written down about a run before its first case.

use std::collections::BTreeMap;

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{units::Bytes, words::Backend};

/// The commit that this executable was built from.
pub(crate) const COMMIT: Option<&str> = option_env!("RINGBREAKER_COMMIT");

/// The machine and what runs on it.
pub(crate) fn environment(
    probe: &v1::NodeProbe,
    backend: Backend,
    nccl: &str,
) -> BTreeMap<String, String> {
    let mut facts = vec![
        ("host", probe.hostname.clone()),
        ("kernel", probe.kernel.clone()),
        ("cpus", probe.cpus.to_string()),
        ("memory", Bytes(probe.memory_bytes).to_string()),
        ("/dev/shm", Bytes(probe.shm_bytes).to_string()),
        ("isolation", probe.isolation.clone()),
        ("cgroups", probe.cgroups.clone()),
    ];
    if let Some(gpu) = probe.gpus.first() {
        let name = format!("{} x {}", probe.gpus.len(), gpu.name);
        facts.extend([("gpu", name), ("driver", gpu.driver.clone())]);
    }
    if backend == Backend::Nccl {
        let used = probe.nccl.iter().find(|library| library.path == nccl);
        if let Some(library) = used.or(probe.nccl.first()) {
            facts.push(("nccl", format!("{} ({})", library.version, library.path)));
        }
    }
    facts.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)).collect()
}

/// What the probe found, for people.
pub(crate) fn probe_text(probe: &v1::NodeProbe) -> String {
    let mut lines = vec![format!(
        "{}: Linux {}, {} CPUs, {} memory, {} /dev/shm; isolation {}, cgroups {}",
        probe.hostname,
        probe.kernel,
        probe.cpus,
        Bytes(probe.memory_bytes),
        Bytes(probe.shm_bytes),
        or_none(&probe.isolation),
        or_none(&probe.cgroups),
    )];
    for gpu in &probe.gpus {
        lines.push(format!(
            "GPU {}: {}, driver {}, {} of {} free",
            gpu.index,
            gpu.name,
            gpu.driver,
            Bytes(gpu.free_bytes),
            Bytes(gpu.memory_bytes),
        ));
    }
    if probe.gpus.is_empty() {
        lines.push("no GPU found".to_owned());
    }
    for library in &probe.nccl {
        lines.push(format!("NCCL {} at {}", library.version, library.path));
    }
    if probe.nccl.is_empty() {
        lines.push("no libnccl found (name one with --nccl PATH)".to_owned());
    }
    for fault in &probe.faults {
        lines.push(match fault.possible {
            true => format!("{:<16} possible", fault.kind),
            false => format!("{:<16} not possible: {}", fault.kind, fault.reason),
        });
    }
    lines.join("\n")
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// A run's id: its second in UTC, and four digits that keep runs of the same second apart.
pub(crate) fn run_id(now: jiff::Timestamp) -> String {
    let distinct = (u64::from(std::process::id())
        ^ (u64::from(now.subsec_nanosecond().unsigned_abs())))
        & 0xffff;
    format!("{}-{distinct:04x}", now.strftime("%Y%m%d-%H%M%S"))
}

/// The command line as it can be typed again: the program by its name.
pub(crate) fn command_line() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("ringbreaker".to_owned()).chain(arguments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> v1::NodeProbe {
        v1::NodeProbe {
            hostname: "node1".into(),
            kernel: "6.1.0".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            shm_bytes: 64 << 20,
            isolation: "namespaces".into(),
            faults: vec![
                v1::FaultAbility { kind: "kill".into(), possible: true, reason: String::new() },
                v1::FaultAbility {
                    kind: "hold_gpu_memory".into(),
                    possible: false,
                    reason: "no GPU".into(),
                },
            ],
            ..Default::default()
        }
    }

    #[test]
    fn the_environment_names_what_is_there_and_nothing_else() {
        let facts = environment(&probe(), Backend::Host, "");
        assert_eq!(facts["kernel"], "6.1.0");
        assert_eq!(facts["memory"], "8 GiB");
        for absent in ["gpu", "nccl", "cgroups"] {
            assert!(!facts.contains_key(absent), "{absent}");
        }
    }

    #[test]
    fn the_probe_says_what_is_not_possible_and_why() {
        let text = probe_text(&probe());
        assert!(text.contains("kill             possible"), "{text}");
        assert!(text.contains("hold_gpu_memory  not possible: no GPU"), "{text}");
        assert!(text.contains("no GPU found"), "{text}");
    }

    #[test]
    fn a_run_id_begins_with_its_second() {
        let id = run_id("2026-12-01T05:15:30.5Z".parse().unwrap());
        assert!(id.starts_with("20261201-051530-") && id.len() == 20, "{id}");
    }
}
