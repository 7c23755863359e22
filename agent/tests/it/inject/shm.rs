//! The /dev/shm of nodes.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use ringbreaker_agent::{audit, inject::BALLAST_PREFIX};
use ringbreaker_scenarios::{
    case::NodeLimits,
    event::Owner,
    fault::{ExhaustShmInodes, FaultKind, FillShm, LimitShm, ReadOnlyShm, StaleShm},
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

#[test]
fn exhaust_shm_inodes_refuses_files_for_which_there_is_space_until_healed() {
    if !can_isolate("exhaust_shm_inodes") {
        return;
    }
    let rig = rig(8 * MIB);
    let make = |name: &str| {
        let path = Path::new("/dev/shm").join(name);
        rig.inside(0, || File::create_new(path))
    };
    let open = make("before").unwrap();
    let fault = FaultKind::ExhaustShmInodes(ExhaustShmInodes { leave: 2 });
    let (mut injector, evidence) = rig.bitten(fault, node(0));
    assert!(evidence.contains("2 more files"), "{evidence}");
    make("first").unwrap();
    make("second").unwrap();
    let refused = make("third").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    (&open).write_all(&vec![1; 4 << 20]).unwrap();
    injector.heal().unwrap();
    for number in 0..200 {
        make(&format!("after-{number}")).unwrap();
    }
    injector.heal().unwrap();
}

#[test]
fn read_only_shm_refuses_new_files_and_leaves_open_ones_alone_until_healed() {
    if !can_isolate("read_only_shm") {
        return;
    }
    let rig = rig(8 * MIB);
    let open = rig.inside(0, || File::create_new("/dev/shm/nccl-open")).unwrap();
    let (mut injector, _) = rig.bitten(FaultKind::ReadOnlyShm(ReadOnlyShm {}), node(0));
    let make = || rig.inside(0, || File::create_new("/dev/shm/nccl-new"));
    assert_eq!(make().unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    let again = || rig.inside(0, || File::options().write(true).open("/dev/shm/nccl-open"));
    assert_eq!(again().unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    (&open).write_all(&[1; 4096]).unwrap();
    assert!(rig.inside(1, || File::create_new("/dev/shm/nccl-other")).is_ok());
    injector.heal().unwrap();
    make().unwrap();
    again().unwrap();
    // Healing again must not take the node's own /dev/shm away.
    injector.heal().unwrap();
    assert!(rig.inside(0, || Path::new("/dev/shm/nccl-new").exists()));
}

#[test]
fn stale_shm_takes_its_space_is_told_from_the_jobs_files_and_goes_without_them() {
    if !can_isolate("stale_shm") {
        return;
    }
    let rig = rig(8 * MIB);
    let fault = StaleShm { files: 3, each: Bytes(2 * MIB) };
    let (mut injector, evidence) = rig.bitten(FaultKind::StaleShm(fault), node(0));
    assert!(evidence.contains("3 old files"), "{evidence}");
    assert!(is_full(&write(&rig, 2 * MIB + 4096)), "their space is not taken");
    write(&rig, 2 * MIB - 8192).unwrap();
    let shm = rig.nodes[0].shm_path();
    let stale = || {
        let files = std::fs::read_dir(&shm).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("nccl-")).count()
    };
    assert_eq!(stale(), 3);
    // Somebody tidies one up, and the job takes the name.
    let name = std::fs::read_dir(&shm).unwrap().flatten().next().unwrap().path();
    std::fs::remove_file(&name).unwrap();
    std::fs::write(&name, "the job's").unwrap();
    injector.heal().unwrap();
    assert_eq!((stale(), name.exists()), (1, true));
    injector.heal().unwrap();
}

#[test]
fn stale_files_that_were_not_taken_back_are_left_overs_of_ours_and_not_of_the_job() {
    if !can_isolate("the audit of stale files") {
        return;
    }
    let rig = rig(8 * MIB);
    std::fs::write(rig.nodes[0].shm_path().join("nccl-AbCdEf"), "the job's").unwrap();
    let fault = FaultKind::StaleShm(StaleShm { files: 2, each: Bytes(0) });
    let (_injector, _) = rig.bitten(fault, node(0));
    let found = audit::job(&rig.nodes[..1]);
    let count =
        |owner| found.iter().filter(|(of, what)| *of == owner && what.contains("nccl-")).count();
    assert_eq!((count(Owner::Harness), count(Owner::Job)), (2, 1), "{found:?}");
}

#[test]
fn stale_files_that_do_not_fit_are_refused() {
    if !can_isolate("stale files that do not fit") {
        return;
    }
    let rig = rig(MIB);
    let fault = FaultKind::StaleShm(StaleShm { files: 2, each: Bytes(MIB) });
    let error = rig.injector(fault, node(0)).unwrap().inject().unwrap_err();
    assert!(error.to_string().contains("do not fit"), "{error}");
}
