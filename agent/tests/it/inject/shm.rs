//! The /dev/shm of nodes.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use ringbreaker_agent::inject::BALLAST_PREFIX;
use ringbreaker_scenarios::{
    case::NodeLimits,
    fault::{FaultKind, FillShm, LimitShm},
    units::Bytes,
};

use super::rig::{Rig, can_isolate, node};

const MIB: u64 = 1 << 20;

fn rig(size: u64) -> Rig {
    let limits = NodeLimits { shm_size: Some(Bytes(size)), ..NodeLimits::default() };
    Rig::new(Bytes(4096), &limits)
}

/// Writes a file of this size in the node's /dev/shm, as a job would, and removes it again.
fn write(rig: &Rig, size: u64) -> io::Result<()> {
    rig.inside(0, || {
        let path = Path::new("/dev/shm/nccl-test");
        let written = File::create(path)
            .and_then(|mut file| file.write_all(&vec![1; usize::try_from(size).unwrap()]));
        std::fs::remove_file(path)?;
        written
    })
}

fn is_full(result: &io::Result<()>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

#[test]
fn limit_shm_is_felt_by_a_write_beyond_the_size_and_by_none_below() {
    if !can_isolate("limit_shm") {
        return;
    }
    let rig = rig(MIB);
    let (mut injector, evidence) =
        rig.bitten(FaultKind::LimitShm(LimitShm { to: Bytes(MIB) }), node(0));
    assert!(evidence.contains("1 MiB"), "{evidence}");
    write(&rig, MIB - 8192).unwrap();
    assert!(is_full(&write(&rig, MIB + 4096)));
    injector.heal().unwrap();
}

#[test]
fn limit_shm_without_a_node_built_that_way_is_refused() {
    if !can_isolate("limit_shm of another size") {
        return;
    }
    let rig = rig(2 * MIB);
    let mut injector =
        rig.injector(FaultKind::LimitShm(LimitShm { to: Bytes(MIB) }), node(0)).unwrap();
    assert!(injector.inject().is_err());
    assert_eq!(injector.witness(), None);
}

#[test]
fn fill_shm_leaves_the_margin_and_gives_all_back() {
    if !can_isolate("fill_shm") {
        return;
    }
    let rig = rig(8 * MIB);
    let fault = FaultKind::FillShm(FillShm { leave: Bytes(MIB) });
    let (mut injector, _) = rig.bitten(fault, node(0));
    write(&rig, MIB - 8192).unwrap();
    assert!(is_full(&write(&rig, MIB + 4096)));
    assert!(injector.undo().is_empty());
    injector.heal().unwrap();
    write(&rig, 8 * MIB - 8192).unwrap();
    injector.heal().unwrap();
    let machine = std::fs::read_dir("/dev/shm").unwrap();
    let ballast = |name: std::ffi::OsString| name.to_string_lossy().starts_with(BALLAST_PREFIX);
    assert!(!machine.flatten().any(|entry| ballast(entry.file_name())), "the machine's own");
}

#[test]
fn fill_shm_that_would_take_much_of_the_machine_is_refused() {
    if !can_isolate("fill_shm of a large /dev/shm") {
        return;
    }
    let rig = rig(1 << 50);
    let fault = FaultKind::FillShm(FillShm { leave: Bytes(0) });
    let error = rig.injector(fault, node(0)).unwrap().inject().unwrap_err();
    assert!(error.to_string().contains("shm_size"), "{error}");
}
