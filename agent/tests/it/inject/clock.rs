//! Clocks of ranks.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use ringbreaker_agent::{
    inject::{self, Ground, RankProcess},
    sys::{
        clock,
        process::{self, Entry, Process, SpawnRequest, Stdio},
        timens,
    },
};
use ringbreaker_scenarios::{
    fault::{FaultKind, ShiftClock},
    units::Nanos,
};

use super::rig::{PROGRAM, Rig, can_isolate, plan, rank};

const HOUR: Nanos = Nanos::from_secs(3600);

/// A shift that this machine can carry, or a printed reason.
fn rig(test: &str) -> Option<Rig> {
    if !can_isolate(test) {
        return None;
    }
    if let Err(error) = timens::shifted(1) {
        println!("SKIPPED: {test}: no time namespaces: {error}");
        return None;
    }
    Some(Rig::small())
}

fn start(rig: &Rig, args: &[&str], offset: i64, stdout: Stdio) -> Process {
    let time = (offset != 0).then(|| Arc::new(timens::shifted(offset).unwrap()));
    let request = SpawnRequest {
        program: PathBuf::from(PROGRAM),
        args: args.iter().map(Into::into).collect(),
        stdout,
        entry: Some(Entry { time, ..rig.nodes[0].entry(0) }),
        ..SpawnRequest::default()
    };
    process::spawn(request).unwrap()
}

/// What a process with this offset reads, and our readings before and after.
fn readings(rig: &Rig, offset: i64) -> [i64; 3] {
    let before = clock::now();
    let (mut reader, writer) = io::pipe().unwrap();
    start(rig, &["tell-clock"], offset, Stdio::Fd(writer.into())).wait().unwrap();
    let mut told = String::new();
    reader.read_to_string(&mut told).unwrap();
    let after = clock::now();
    [before.0 as i64, told.trim().parse().unwrap(), after.0 as i64]
}

#[test]
fn a_shifted_clock_is_read_by_the_process_itself_exactly_that_far_away() {
    let Some(rig) = rig("shift_clock") else { return };
    for shift in [
        ShiftClock { ahead: HOUR, behind: Nanos::ZERO },
        ShiftClock { ahead: Nanos::from_secs(600 * 3600), behind: Nanos::ZERO },
        // Any machine that has come so far is up for a second.
        ShiftClock { ahead: Nanos::ZERO, behind: Nanos::from_secs(1) },
        ShiftClock::default(),
    ] {
        let offset = shift.offset();
        let [before, told, after] = readings(&rig, offset);
        assert!((before + offset..=after + offset).contains(&told), "{shift:?}: {told}");
    }
}

fn shifted(rig: &Rig, fault: &ShiftClock, process: &Process, told: Option<i64>) -> Option<String> {
    let found = RankProcess {
        rank: 0,
        node: 0,
        pid: process.pid,
        start_time: process.start_time,
        clock_ahead: told,
    };
    let directory = std::env::temp_dir();
    let ground = Ground::new(Arc::clone(&rig.nodes), None, vec![found], None, directory);
    let plan = plan(FaultKind::ShiftClock(fault.clone()), rank(0));
    let mut injector = inject::injector(&plan, &ground).unwrap();
    let refused = injector.inject().err().map(|error| error.to_string());
    assert_eq!(refused.is_some(), injector.witness().is_none() && told.is_none(), "{refused:?}");
    injector.heal().unwrap();
    injector.heal().unwrap();
    injector.witness()
}

#[test]
fn shift_clock_is_witnessed_by_the_kernel_and_by_what_the_rank_told() {
    let Some(rig) = rig("the witness of shift_clock") else { return };
    let fault = ShiftClock { ahead: HOUR, behind: Nanos::ZERO };
    let hour = fault.offset();
    let shifted_rank = start(&rig, &["rank", "4096"], hour, Stdio::Null);
    let plain_rank = start(&rig, &["rank", "4096"], 0, Stdio::Null);
    let kernel = shifted(&rig, &fault, &shifted_rank, None).unwrap();
    assert!(kernel.contains("the kernel shows"), "{kernel}");
    let told = shifted(&rig, &fault, &shifted_rank, Some(hour - 2_000_000)).unwrap();
    assert!(told.contains("told a clock 3599.998 s ahead"), "{told}");
    // The kernel says so, and the rank does not.
    assert_eq!(shifted(&rig, &fault, &shifted_rank, Some(0)), None);
    assert_eq!(shifted(&rig, &fault, &plain_rank, None), None);
}
