//! Faults that change one setting of the kernel and end in the order in which they began, or in the other.

use ringbreaker_agent::{
    inject::Injector,
    sys::{filesystem, sysctl},
};
use ringbreaker_scenarios::{
    case::{NodeLimits, Target},
    fault::{
        ExhaustPorts, ExhaustShmInodes, FaultKind, LimitMemory, NarrowPorts, PressPageCache,
        ReadOnlyShm,
    },
    units::Bytes,
};

use super::rig::{PATIENCE, Rig, can_isolate, node, rank, within};

const MIB: u64 = 1 << 20;

/// Begins both, ends both, the first first or the last first.
fn overlap(rig: &Rig, pair: [FaultKind; 2], target: &Target, first_first: bool) {
    let mut injectors: Vec<Box<dyn Injector>> =
        (0..).zip(pair).map(|(id, kind)| rig.bitten_as(id, kind, target.clone()).0).collect();
    if !first_first {
        injectors.reverse();
    }
    injectors.iter_mut().for_each(|injector| injector.heal().unwrap());
    injectors.iter_mut().for_each(|injector| injector.heal().unwrap());
}

#[test]
fn limits_of_a_ranks_memory_are_gone_when_the_last_fault_is() {
    if !can_isolate("limits of memory that overlap") {
        return;
    }
    for own in [None, Some(Bytes(512 * MIB))] {
        for first_first in [true, false] {
            let limits = NodeLimits { memory_limit: own, ..NodeLimits::default() };
            let rig = Rig::new(Bytes(16 * MIB), &limits);
            if let Some(reason) = rig.nodes[0].no_cgroups() {
                println!("SKIPPED: limits of memory that overlap: {reason}");
                return;
            }
            let leave = Bytes(16 * MIB);
            let pair = [
                FaultKind::LimitMemory(LimitMemory { leave, ..LimitMemory::default() }),
                FaultKind::PressPageCache(PressPageCache {
                    room: Bytes(16 * MIB),
                    rate: Bytes(512 * MIB),
                }),
            ];
            overlap(&rig, pair, &rank(0), first_first);
            assert_eq!(rig.nodes[0].cgroup(0).unwrap().memory_limit().unwrap(), own);
            assert!(rig.beats_within(0, PATIENCE));
        }
    }
}

#[test]
fn the_range_of_ports_is_whole_when_the_last_fault_is_gone() {
    if !can_isolate("ranges of ports that overlap") {
        return;
    }
    for first_first in [true, false] {
        let rig = Rig::small();
        let range = || rig.inside(0, || sysctl::read("net.ipv4.ip_local_port_range")).unwrap();
        let before = range();
        let pair = [
            FaultKind::NarrowPorts(NarrowPorts { to: 100 }),
            FaultKind::ExhaustPorts(ExhaustPorts { leave: 2 }),
        ];
        overlap(&rig, pair, &node(0), first_first);
        assert_eq!(range(), before);
    }
}

#[test]
fn shm_takes_files_and_writes_again_when_the_last_fault_is_gone() {
    if !can_isolate("faults of /dev/shm that overlap") {
        return;
    }
    for first_first in [true, false] {
        let rig = Rig::small();
        let total = || filesystem::inodes(&rig.nodes[0].shm_path()).unwrap().total;
        let before = total();
        let inodes = |leave| FaultKind::ExhaustShmInodes(ExhaustShmInodes { leave });
        overlap(&rig, [inodes(10), inodes(0)], &node(0), first_first);
        assert_eq!(total(), before);
        let read_only = || FaultKind::ReadOnlyShm(ReadOnlyShm {});
        overlap(&rig, [read_only(), read_only()], &node(0), first_first);
        let made = || rig.inside(0, || std::fs::File::create("/dev/shm/nccl-x")).ok();
        assert!(within(PATIENCE, made).is_some());
    }
}
