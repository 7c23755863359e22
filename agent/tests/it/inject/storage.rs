//! The storage of nodes, for checkpoints and logs.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    inject::{self, InjectError},
    log_pipe::LogPipe,
};
use ringbreaker_scenarios::{
    event::Isolation,
    fault::{FaultKind, FillStorage, ReadOnlyStorage, SlowLog, SlowStorage},
    units::{Bytes, Nanos},
};

use super::rig::{PATIENCE, PROGRAM, Rig, can_isolate, isolation, node, plan, rank, within};

const MIB: u64 = 1 << 20;

/// A path in the storage of a node, as its ranks see it.
fn path(rig: &Rig, on: usize, name: &str) -> PathBuf {
    rig.nodes[on].storage().unwrap().0.join(name)
}

/// Writes a file of this size as a rank of node 0 would, and removes it again.
fn write(rig: &Rig, size: u64) -> io::Result<()> {
    let path = path(rig, 0, "rank0.checkpoint");
    rig.inside(0, || {
        let written = File::create(&path)
            .and_then(|mut file| file.write_all(&vec![1; usize::try_from(size).unwrap()]));
        fs::remove_file(&path)?;
        written
    })
}

#[test]
fn what_a_node_writes_to_its_storage_is_seen_by_it_and_the_agent_alone() {
    if !can_isolate("the storage of a node") {
        return;
    }
    let rig = Rig::small();
    let inside = path(&rig, 0, "log");
    rig.inside(0, || fs::write(&inside, "said").unwrap());
    let (_, outside) = rig.nodes[0].storage().unwrap();
    assert_eq!(fs::read_to_string(outside.join("log")).unwrap(), "said");
    assert!(!inside.exists() && !rig.inside(1, || inside.exists()));
}

#[test]
fn fill_storage_leaves_the_margin_and_gives_all_back() {
    if !can_isolate("fill_storage") {
        return;
    }
    let rig = Rig::small();
    let fault = FaultKind::FillStorage(FillStorage { leave: Bytes(MIB) });
    let (mut injector, evidence) = rig.bitten(fault, node(0));
    assert!(evidence.contains("the storage"), "{evidence}");
    write(&rig, MIB - 8192).unwrap();
    assert_eq!(write(&rig, MIB + 4096).unwrap_err().kind(), io::ErrorKind::StorageFull);
    injector.heal().unwrap();
    write(&rig, 60 * MIB).unwrap();
    injector.heal().unwrap();
}

#[test]
fn read_only_storage_refuses_a_new_checkpoint_and_not_the_open_log_until_healed() {
    if !can_isolate("read_only_storage") {
        return;
    }
    let rig = Rig::small();
    let log = path(&rig, 0, "rank0.nccl.log");
    let open = rig.inside(0, || File::create(&log)).unwrap();
    let (mut injector, _) = rig.bitten(FaultKind::ReadOnlyStorage(ReadOnlyStorage {}), node(0));
    assert_eq!(write(&rig, 1).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    (&open).write_all(b"still said").unwrap();
    injector.heal().unwrap();
    write(&rig, 1).unwrap();
    injector.heal().unwrap();
    let (_, outside) = rig.nodes[0].storage().unwrap();
    assert_eq!(fs::read_to_string(outside.join("rank0.nccl.log")).unwrap(), "still said");
}

/// How long another process takes to open a file in the storage of a node.
fn opening(rig: &Rig, on: usize) -> Duration {
    let path = path(rig, on, "rank0.checkpoint");
    rig.inside(on, || {
        let begun = Instant::now();
        let program = Command::new(PROGRAM).arg("open").arg(&path).status().unwrap();
        assert!(program.success());
        begun.elapsed()
    })
}

#[test]
fn slow_storage_holds_up_every_open_for_its_time_until_healed() {
    if !can_isolate("slow_storage") {
        return;
    }
    let rig = Rig::small();
    let by = Duration::from_millis(400);
    let fault = FaultKind::SlowStorage(SlowStorage { by: Nanos::from(by) });
    let mut injector = rig.injector(fault, node(0)).unwrap();
    match injector.inject() {
        Err(error @ InjectError::Step { .. }) if isolation().isolation != Isolation::Namespaces => {
            println!("SKIPPED: slow_storage: {error}");
            return;
        }
        other => other.unwrap(),
    }
    assert_eq!(injector.witness(), None, "nobody has opened anything yet");
    for _ in 0..2 {
        assert!(opening(&rig, 0) >= by);
    }
    let evidence = within(PATIENCE, || injector.witness()).unwrap();
    assert!(evidence.contains("holds up process"), "{evidence}");
    // Healing lets those through who wait, and nobody waits afterwards.
    let path = path(&rig, 0, "rank0.checkpoint");
    let mut waiting =
        rig.inside(0, || Command::new(PROGRAM).arg("open").arg(&path).spawn().unwrap());
    injector.heal().unwrap();
    assert!(waiting.wait().unwrap().success());
    injector.heal().unwrap();
    opening(&rig, 0);
    assert!(injector.witness().is_none(), "it is over");
}

#[test]
fn slow_log_makes_its_writer_wait_until_healed_and_loses_nothing() {
    let rig = Rig::small();
    let directory = tempfile::tempdir().unwrap();
    let (path, log) = (directory.path().join("pipe"), directory.path().join("log"));
    let pipe = Arc::new(LogPipe::make(&path, &log).unwrap());
    let ground = rig.ground.clone().with_log_pipes([(0, Arc::clone(&pipe))].into());
    let fault = || FaultKind::SlowLog(SlowLog { rate: Bytes(0) });
    let mut injector = inject::injector(&plan(fault(), rank(0)), &ground).unwrap();
    injector.inject().unwrap();
    assert_eq!(injector.witness(), None, "nobody has written anything yet");
    let mut writer = Command::new(PROGRAM).arg("write").arg(&path).spawn().unwrap();
    let evidence = within(PATIENCE, || injector.witness()).unwrap();
    assert!(evidence.contains("4096 bytes wait in the log pipe of rank 0"), "{evidence}");
    assert!(writer.try_wait().unwrap().is_none(), "the writer does not wait");
    injector.heal().unwrap();
    assert!(writer.wait().unwrap().success());
    injector.heal().unwrap();
    pipe.end();
    assert_eq!(fs::metadata(&log).unwrap().len(), 100_000);

    let error = rig.injector(fault(), rank(1)).err().unwrap();
    assert!(error.to_string().contains("goes to no pipe"), "{error}");
}
