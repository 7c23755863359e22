//! Rules on the links between nodes, measured with packets of the test's own.

use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

use ringbreaker_agent::sys::clock;
use ringbreaker_scenarios::{
    fault::{Delay, FaultKind, Loss, Partition, Rate},
    units::Nanos,
};

use super::rig::{PATIENCE, Rig, can_isolate, link, within};

/// A pair of sockets on the two nodes.
struct Wire {
    near: UdpSocket,
    far: UdpSocket,
}

impl Wire {
    fn new(rig: &Rig) -> Wire {
        let bind = |node: usize| {
            let address = rig.nodes[node].address();
            rig.inside(node, move || UdpSocket::bind((address, 0))).unwrap()
        };
        let (near, far) = (bind(0), bind(1));
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        Wire { near, far }
    }

    /// From the sending to the arrival of one packet; none: it did not arrive within 300 ms.
    fn time(from: &UdpSocket, to: &UdpSocket) -> Option<Duration> {
        let mut packet = [0; 2048];
        let sent = Instant::now();
        from.send(&[7; 100]).unwrap();
        to.recv(&mut packet).ok().map(|_| sent.elapsed())
    }

    fn there(&self) -> Option<Duration> {
        Wire::time(&self.near, &self.far)
    }

    fn back(&self) -> Option<Duration> {
        Wire::time(&self.far, &self.near)
    }

    /// A packet that gets through at once, as on a link without a rule.
    fn is_free(&self, than: Duration) -> bool {
        within(PATIENCE, || self.there().filter(|time| *time < than)).is_some()
    }
}

#[test]
fn delay_holds_back_every_packet_of_its_direction_until_healed() {
    if !can_isolate("delay") {
        return;
    }
    let rig = Rig::small();
    let wire = Wire::new(&rig);
    let by = Duration::from_millis(40);
    let fault = FaultKind::Delay(Delay { by: Nanos::from(by), jitter: Nanos::ZERO });
    let (mut injector, evidence) = rig.bitten(fault, link(0, 1));
    assert!(evidence.contains("from node 0 to node 1"), "{evidence}");
    // Counted when it arrived, but in effect since it was held back.
    let effect = injector.effect().expect("the fabric knows when it held the packet back");
    assert!(effect + Nanos::from(by) <= clock::now());
    for _ in 0..5 {
        assert!(wire.there().unwrap() >= by);
    }
    assert!(within(PATIENCE, || wire.back().filter(|time| *time < by)).is_some());
    injector.heal().unwrap();
    assert!(wire.is_free(by), "the link is slow after healing");
    injector.heal().unwrap();
}

#[test]
fn loss_takes_its_share_of_packets_until_healed() {
    if !can_isolate("loss") {
        return;
    }
    let rig = Rig::small();
    let wire = Wire::new(&rig);
    let (mut injector, _) = rig.bitten(FaultKind::Loss(Loss { percent: 50.0 }), link(0, 1));
    let arrived = |count: u32| {
        wire.far.set_nonblocking(true).unwrap();
        let mut got = 0;
        for _ in 0..count {
            wire.near.send(&[1; 64]).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut packet = [0; 64];
        std::thread::sleep(Duration::from_millis(100));
        while wire.far.recv(&mut packet).is_ok() {
            got += 1;
        }
        wire.far.set_nonblocking(false).unwrap();
        got
    };
    let got = arrived(400);
    // Nine standard deviations of 400 draws at one half are 90.
    assert!((110..=290).contains(&got), "{got} of 400 arrived");
    injector.heal().unwrap();
    assert!(within(PATIENCE, || (arrived(100) == 100).then_some(())).is_some());
}

#[test]
fn rate_lets_no_more_through_than_it_says_until_healed() {
    if !can_isolate("rate") {
        return;
    }
    let rig = Rig::small();
    let wire = Wire::new(&rig);
    let (mut injector, _) = rig.bitten(FaultKind::Rate(Rate { mbit: 1.0 }), link(0, 1));
    wire.far.set_read_timeout(Some(PATIENCE)).unwrap();
    let (packets, bytes) = (40_u32, 1000_u32);
    let begin = Instant::now();
    for _ in 0..packets {
        wire.near.send(&[1; 1000]).unwrap();
    }
    let mut packet = [0; 2048];
    for _ in 0..packets {
        wire.far.recv(&mut packet).unwrap();
    }
    // The link may be ahead by some packets; nine tenths of the pure time is the lower bound.
    let pure = f64::from(packets * bytes * 8) / 1e6;
    let took = begin.elapsed().as_secs_f64();
    assert!(took >= 0.9 * pure, "{took} s instead of {pure} s");
    injector.heal().unwrap();
    wire.far.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(wire.is_free(Duration::from_millis(20)));
}

#[test]
fn partition_lets_nothing_through_in_its_direction_until_healed() {
    if !can_isolate("partition") {
        return;
    }
    let rig = Rig::small();
    let wire = Wire::new(&rig);
    let (mut injector, _) = rig.bitten(FaultKind::Partition(Partition {}), link(0, 1));
    assert_eq!(wire.there(), None);
    assert!(within(PATIENCE, || wire.back()).is_some(), "the other direction is blocked too");
    injector.heal().unwrap();
    assert!(wire.is_free(PATIENCE));
}

#[test]
fn two_faults_on_one_direction_add_up_and_heal_one_by_one() {
    if !can_isolate("two faults on one link") {
        return;
    }
    let rig = Rig::small();
    let wire = Wire::new(&rig);
    let by = Duration::from_millis(30);
    let delay = FaultKind::Delay(Delay { by: Nanos::from(by), jitter: Nanos::ZERO });
    let (mut slow, _) = rig.bitten(delay, link(0, 1));
    let (mut cut, _) = rig.bitten_as(1, FaultKind::Partition(Partition {}), link(0, 1));
    assert_eq!(wire.there(), None);
    cut.heal().unwrap();
    assert!(within(PATIENCE, || wire.there()).unwrap() >= by, "healing one took both away");
    slow.heal().unwrap();
    assert!(wire.is_free(by));
}
