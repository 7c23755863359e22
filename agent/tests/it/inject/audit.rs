//! What is left after a case is told apart: the job's and ours.

use std::fs;

use ringbreaker_agent::{
    audit,
    inject::BALLAST_PREFIX,
    journal::{Journal, Undo},
    sys::{cgroup::Cgroup, signal::Signal},
};
use ringbreaker_scenarios::event::Owner;

use super::rig::{Rig, can_isolate};

#[test]
fn left_overs_of_a_job_are_found_on_its_nodes_and_removed_where_they_are_files() {
    if !can_isolate("the audit of a job") {
        return;
    }
    let rig = Rig::small();
    let shm = rig.nodes[0].shm_path();
    fs::write(shm.join("nccl-AbCdEf"), [0; 100]).unwrap();
    fs::write(shm.join("somebody-else"), "x").unwrap();
    fs::write(shm.join(format!("{BALLAST_PREFIX}0")), "x").unwrap();
    let listener = rig.inside(1, || std::net::TcpListener::bind("0.0.0.0:4711")).unwrap();

    let found = audit::job(&rig.nodes);
    let count = |owner: Owner, words: &str| {
        found.iter().filter(|(of, what)| *of == owner && what.contains(words)).count()
    };
    assert_eq!(count(Owner::Job, "nccl-AbCdEf, 100 bytes (removed)"), 1, "{found:?}");
    assert_eq!(count(Owner::Job, "port 4711"), 1, "{found:?}");
    assert_eq!(count(Owner::Job, "still runs"), 2, "{found:?}");
    assert_eq!(count(Owner::Harness, BALLAST_PREFIX), 1, "{found:?}");
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(shm.join("somebody-else").exists());

    drop(listener);
    for rank in &rig.ranks {
        rank.signal(Signal::SIGKILL).unwrap();
        rank.wait().unwrap();
    }
    assert_eq!(audit::job(&rig.nodes), []);
}

#[test]
fn left_overs_of_the_harness_are_found_and_cgroups_removed() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&directory.path().join("journal")).unwrap();
    assert_eq!(audit::harness(&journal, &[]), []);
    let entry =
        journal.record(&Undo::RemoveFile { path: "/nowhere/ringbreaker-x".into() }).unwrap();
    let group = match Cgroup::create(&format!("test-{}-audit", std::process::id())) {
        Ok(group) => Some(group),
        Err(error) => {
            println!("SKIPPED: the audit of cgroups: {error}");
            None
        }
    };
    let paths = group.as_ref().map(Cgroup::paths).unwrap_or_default();
    let found = audit::harness(&journal, &paths);
    assert!(found.iter().all(|(of, _)| *of == Owner::Harness));
    assert!(found.iter().any(|(_, what)| what.contains("ringbreaker-x")), "{found:?}");
    assert_eq!(found.len(), 1 + paths.len(), "{found:?}");
    journal.done(entry).unwrap();
    assert_eq!(audit::harness(&journal, &paths), []);
}
