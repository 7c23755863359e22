//! Memory of a rank's cgroup.

use std::time::{Duration, Instant};

use ringbreaker_agent::{journal::Undo, sys::procfs};
use ringbreaker_scenarios::{
    case::NodeLimits,
    event::ExitStatus,
    fault::{FaultKind, FragmentGpuMemory, HoldGpuMemory, LimitMemory, PressPageCache},
    units::Bytes,
};

use super::rig::{PATIENCE, Rig, can_isolate, node, rank, within};

const MIB: u64 = 1 << 20;

/// A rig with cgroups, or a printed reason.
fn rig(test: &str) -> Option<Rig> {
    if !can_isolate(test) {
        return None;
    }
    let rig = Rig::new(Bytes(32 * MIB), &NodeLimits::default());
    if let Some(reason) = rig.nodes[0].no_cgroups() {
        println!("SKIPPED: {test}: {reason}");
        return None;
    }
    Some(rig)
}

fn presser(undo: &[Undo]) -> (u32, u64) {
    let [Undo::KillProcess { pid, start_time }] = undo else { panic!("{undo:?}") };
    (*pid, *start_time)
}

#[test]
fn limit_memory_to_nothing_makes_the_oom_killer_end_the_rank_and_no_other() {
    let Some(rig) = rig("limit_memory down to the OOM killer") else { return };
    let fault = FaultKind::LimitMemory(LimitMemory { leave: Bytes(0), ..LimitMemory::default() });
    let (mut injector, evidence) = rig.bitten(fault, rank(0));
    assert!(evidence.contains("OOM killer"), "{evidence}");
    assert_eq!(rig.ranks[0].wait().unwrap(), ExitStatus::Signal(9));
    assert!(rig.beats_within(1, PATIENCE));
    injector.heal().unwrap();
    assert!(rig.nodes[0].cgroup(0).unwrap().pids().unwrap().is_empty());
}

#[test]
fn limit_memory_with_a_margin_leaves_no_more_than_it_and_gives_all_back() {
    let Some(rig) = rig("limit_memory with a margin") else { return };
    let cgroup = rig.nodes[0].cgroup(0).unwrap();
    let before = cgroup.memory_usage().unwrap();
    let leave = Bytes(16 * MIB);
    let (mut injector, _) = rig
        .bitten(FaultKind::LimitMemory(LimitMemory { leave, ..LimitMemory::default() }), rank(0));
    let free = cgroup.memory_limit().unwrap().unwrap().0 - cgroup.memory_usage().unwrap().0;
    assert!(free <= leave.0 + MIB, "{free} bytes are free");
    assert!(rig.beats_within(0, PATIENCE), "the rank was harmed though it took nothing");
    let (pid, start_time) = presser(&injector.undo());
    assert!(cgroup.pids().unwrap().contains(&pid));
    injector.heal().unwrap();
    assert_eq!(ringbreaker_agent::sys::procfs::state(pid, start_time).unwrap(), None);
    assert_eq!(cgroup.memory_limit().unwrap(), None);
    assert!(cgroup.memory_usage().unwrap().0 < before.0 + 4 * MIB);
    injector.heal().unwrap();
}

#[test]
fn hold_gpu_memory_is_refused_when_no_rank_uses_a_gpu() {
    let rig = Rig::small();
    let fault = FaultKind::HoldGpuMemory(HoldGpuMemory { leave: Bytes(10 * MIB) });
    let error = rig.injector(fault, node(0)).err().unwrap();
    assert!(error.to_string().contains("no rank of these nodes uses a GPU"), "{error}");
}

#[test]
fn limit_memory_gives_back_the_limit_that_was_there() {
    if rig("limit_memory over a limit").is_none() {
        return;
    }
    let own = Bytes(256 * MIB);
    let limits = NodeLimits { memory_limit: Some(own), ..NodeLimits::default() };
    let rig = Rig::new(Bytes(MIB), &limits);
    let fault =
        FaultKind::LimitMemory(LimitMemory { leave: Bytes(4 * MIB), ..LimitMemory::default() });
    let (mut injector, _) = rig.bitten(fault, rank(1));
    let cgroup = rig.nodes[1].cgroup(1).unwrap();
    assert!(cgroup.memory_limit().unwrap().unwrap() < own);
    injector.heal().unwrap();
    assert_eq!(cgroup.memory_limit().unwrap(), Some(own));
}

#[test]
fn limit_memory_at_a_rate_comes_up_to_the_limit_no_faster_than_it_says() {
    let Some(rig) = rig("limit_memory at a rate") else { return };
    let cgroup = rig.nodes[0].cgroup(0).unwrap();
    let (leave, rate) = (Bytes(8 * MIB), Some(Bytes(128 * MIB)));
    let fault = FaultKind::LimitMemory(LimitMemory { leave, rate, swap: false });
    let begun = Instant::now();
    let (mut injector, evidence) = rig.bitten(fault, rank(0));
    // 64 MiB at 128 MiB a second, less what the witness forgives.
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert!(evidence.contains("of its limit"), "{evidence}");
    assert!(rig.beats_within(0, PATIENCE), "the rank was harmed though it took nothing");
    injector.heal().unwrap();
    assert_eq!(cgroup.memory_limit().unwrap(), None);
}

#[test]
fn limit_memory_with_swap_is_refused_on_a_machine_that_has_none() {
    let Some(rig) = rig("limit_memory with swap") else { return };
    if procfs::swap_total().unwrap() > Bytes(0) {
        println!("SKIPPED: limit_memory with swap is refused: this machine has swap");
        return;
    }
    let fault = LimitMemory { leave: Bytes(0), swap: true, ..LimitMemory::default() };
    let error = rig.injector(FaultKind::LimitMemory(fault), rank(0)).err().unwrap();
    assert!(error.to_string().contains("no swap"), "{error}");
}

#[test]
fn press_page_cache_keeps_the_cgroup_at_its_limit_until_healed_and_kills_nobody() {
    let Some(rig) = rig("press_page_cache") else { return };
    let cgroup = rig.nodes[0].cgroup(0).unwrap();
    let fault = PressPageCache { room: Bytes(16 * MIB), rate: Bytes(512 * MIB) };
    let mut injector = match rig.injector(FaultKind::PressPageCache(fault), rank(0)) {
        Ok(injector) => injector,
        Err(error) => {
            assert!(error.to_string().contains("tmpfs"), "{error}");
            println!("SKIPPED: press_page_cache: {error}");
            return;
        }
    };
    injector.inject().unwrap();
    let evidence = within(PATIENCE, || injector.witness()).unwrap();
    assert!(evidence.contains("page cache"), "{evidence}");
    let taken = cgroup.pages_taken().unwrap();
    let goes_on = || (cgroup.pages_taken().unwrap() > taken + 500).then_some(());
    assert!(within(PATIENCE, goes_on).is_some(), "the pressure does not last");
    assert!(rig.beats_within(0, PATIENCE));
    assert_eq!(cgroup.oom_kills().unwrap(), 0);
    let (pid, start_time) = presser(&injector.undo());
    injector.heal().unwrap();
    assert_eq!(procfs::state(pid, start_time).unwrap(), None);
    assert_eq!(cgroup.memory_limit().unwrap(), None);
    injector.heal().unwrap();
}

#[test]
fn fragment_gpu_memory_is_refused_when_no_rank_uses_a_gpu() {
    let rig = Rig::small();
    let fault = FragmentGpuMemory { leave: Bytes(64 * MIB), piece: Bytes(2 * MIB) };
    let error = rig.injector(FaultKind::FragmentGpuMemory(fault), node(0)).err().unwrap();
    assert!(error.to_string().contains("no rank of these nodes uses a GPU"), "{error}");
}
