//! The fabric between real namespaces, by ordinary sockets.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    fabric::{
        Fabric, FabricError, Rule,
        bench::{self, BenchOptions},
    },
    node::VirtualNode,
};
use ringbreaker_scenarios::{case::NodeLimits, units::Nanos};

use crate::ground::{Cluster, eventually, isolation, spec};

/// Sends a datagram to a thread that sends it back, and returns how long that took.
fn round_trip(socket: &UdpSocket, to: SocketAddr) -> Duration {
    let begin = Instant::now();
    socket.send_to(b"ping", to).unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 4);
    begin.elapsed()
}

/// Sends back what comes, until a datagram says `end`.
fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        if &buffer[..length] == b"end" {
            return;
        }
        socket.send_to(&buffer[..length], from).unwrap();
    }
}

/// Bytes that differ everywhere, so that a misplaced piece is seen.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends `data` from node 0 to node 1 over TCP, compares it there, and returns how long it took.
fn transfer(cluster: &Cluster, data: &[u8]) -> Duration {
    let (mut near, mut far) = cluster.tcp(0, 1);
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            near.write_all(data).unwrap();
        });
        let mut got = vec![0; data.len()];
        far.read_exact(&mut got).unwrap();
        assert!(got == data, "the data arrived changed");
        begin.elapsed()
    })
}

#[test]
fn nodes_reach_each_other_over_udp_and_tcp_and_counters_see_it() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(3, isolation, 1);
    let (near, far) = (cluster.udp(2), cluster.udp(0));
    let at = far.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| echo(&far));
        round_trip(&near, at);
        near.send_to(b"end", at).unwrap();
    });
    transfer(&cluster, &pattern(8 << 20));
    let counters = cluster.fabric.counters(0, 1).unwrap();
    assert!(counters.forwarded_bytes > 8 << 20, "{counters:?}");
    // 1448 bytes of payload fit into a packet of 1500: packets of the wire are counted, not reads.
    assert!(counters.forwarded >= (8 << 20) / 1448, "{counters:?}");
    assert_eq!((counters.lost, counters.delayed, counters.write_errors), (0, 0, 0));
    assert_eq!(cluster.fabric.counters(1, 2).unwrap().forwarded, 0);
}

#[test]
fn a_delay_adds_to_every_round_trip_until_it_is_healed() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    let at = far.local_addr().unwrap();
    let delay = Rule { delay: Nanos::from_millis(20), ..Rule::default() };
    thread::scope(|scope| {
        scope.spawn(|| echo(&far));
        cluster.fabric.set_rule(0, 1, delay).unwrap();
        cluster.fabric.set_rule(1, 0, delay).unwrap();
        for _ in 0..5 {
            let took = round_trip(&near, at);
            assert!(took >= Duration::from_millis(40), "{took:?}");
        }
        cluster.fabric.set_rule(0, 1, Rule::default()).unwrap();
        cluster.fabric.set_rule(1, 0, Rule::default()).unwrap();
        eventually("a round trip without the delay", || {
            round_trip(&near, at) < Duration::from_millis(40)
        });
        near.send_to(b"end", at).unwrap();
    });
    let counters = cluster.fabric.counters(0, 1).unwrap();
    assert_eq!(counters.delayed, 5, "{counters:?}");
    assert!(counters.lateness_p50.is_some() && counters.lateness_p99 >= counters.lateness_p50);
}

#[test]
fn healing_a_delay_lets_no_packet_overtake_an_earlier_one() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    let at = far.local_addr().unwrap();
    let (delay, jitter) = (Nanos::from_millis(30), Nanos::from_millis(10));
    cluster.fabric.set_rule(0, 1, Rule { delay, jitter, ..Rule::default() }).unwrap();
    for i in 0..200u32 {
        if i == 100 {
            cluster.fabric.set_rule(0, 1, Rule::default()).unwrap();
        }
        near.send_to(&i.to_be_bytes(), at).unwrap();
    }
    for want in 0..200u32 {
        let mut got = [0; 4];
        far.recv(&mut got).unwrap();
        assert_eq!(u32::from_be_bytes(got), want);
    }
}

#[test]
fn a_loss_of_one_in_ten_takes_about_that_many_and_counts_exactly() {
    const SENT: u32 = 5_000;
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 7);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    let at = far.local_addr().unwrap();
    cluster.fabric.set_rule(0, 1, Rule { loss: 0.1, ..Rule::default() }).unwrap();
    let mut received = 0;
    // In rounds that fit into the receiver's socket buffer, so that nothing else is lost.
    for _ in 0..SENT / 50 {
        let before = cluster.fabric.counters(0, 1).unwrap();
        for _ in 0..50 {
            near.send_to(&[0; 100], at).unwrap();
        }
        let mut passed = 0;
        eventually("the switch has decided on the whole round", || {
            let now = cluster.fabric.counters(0, 1).unwrap();
            passed = now.forwarded - before.forwarded;
            passed + (now.lost - before.lost) == 50
        });
        for _ in 0..passed {
            far.recv(&mut [0; 200]).unwrap();
            received += 1;
        }
    }
    let counters = cluster.fabric.counters(0, 1).unwrap();
    assert_eq!(counters.lost + received, u64::from(SENT));
    // 500 are expected; six standard deviations are 127.
    assert!((373..=627).contains(&counters.lost), "{counters:?}");
}

#[test]
fn tcp_carries_data_unchanged_through_loss_delay_and_jitter() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 3);
    let (delay, jitter) = (Nanos::from_millis(1), Nanos::from_millis(1));
    let rule = Rule { delay, jitter, loss: 0.005, ..Rule::default() };
    cluster.fabric.set_rule(0, 1, rule).unwrap();
    transfer(&cluster, &pattern(4 << 20));
    let counters = cluster.fabric.counters(0, 1).unwrap();
    assert!(counters.lost > 0, "{counters:?}");
    // Losses are of wire packets: with whole GSO packets lost the share would still be near, but the
    // number of packets would not.
    assert!(counters.delayed >= (4 << 20) / 1448, "{counters:?}");
}

#[test]
fn a_rate_is_not_exceeded() {
    const BYTES: usize = 2 << 20;
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let rate = Rule { rate_bits: Some(50e6), ..Rule::default() };
    cluster.fabric.set_rule(0, 1, rate).unwrap();
    let took = transfer(&cluster, &pattern(BYTES));
    let least = Duration::from_secs_f64(BYTES as f64 * 8.0 / 50e6);
    assert!(took >= least, "{took:?} for what takes {least:?}");
    assert!(cluster.fabric.counters(0, 1).unwrap().rate_limited > 0);
}

#[test]
fn a_full_queue_drops_its_tail_and_says_so() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    cluster.fabric.set_rule(0, 1, Rule { rate_bits: Some(1e6), ..Rule::default() }).unwrap();
    // 256 KiB fit; this is four times that.
    for _ in 0..1000 {
        near.send_to(&[0; 1024], far.local_addr().unwrap()).unwrap();
    }
    eventually("something is dropped", || cluster.fabric.counters(0, 1).unwrap().queue_dropped > 0);
}

#[test]
fn a_partition_stops_everything_in_one_direction_and_heals() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let (mut near, mut far) = cluster.tcp(0, 1);
    near.write_all(b"before").unwrap();
    far.read_exact(&mut [0; 6]).unwrap();
    // SYN, ACK, data: each is counted just after it was delivered.
    eventually("what has arrived is counted", || {
        cluster.fabric.counters(0, 1).unwrap().forwarded >= 3
    });
    cluster.fabric.set_rule(0, 1, Rule { partition: true, ..Rule::default() }).unwrap();
    let before = cluster.fabric.counters(0, 1).unwrap();
    near.write_all(b"during").unwrap();
    eventually("the partition takes packets", || {
        cluster.fabric.counters(0, 1).unwrap().blocked > before.blocked
    });
    assert_eq!(cluster.fabric.counters(0, 1).unwrap().forwarded, before.forwarded);
    far.set_nonblocking(true).unwrap();
    assert!(far.read(&mut [0; 6]).is_err(), "data passed a partition");
    far.set_nonblocking(false).unwrap();
    cluster.fabric.set_rule(0, 1, Rule::default()).unwrap();
    let mut got = [0; 6];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"during");
}

#[test]
fn a_partition_also_takes_what_is_on_its_way() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    let delay = Nanos::from_millis(300);
    cluster.fabric.set_rule(0, 1, Rule { delay, ..Rule::default() }).unwrap();
    near.send_to(b"late", far.local_addr().unwrap()).unwrap();
    thread::sleep(Duration::from_millis(50));
    let cut = Rule { delay, partition: true, ..Rule::default() };
    cluster.fabric.set_rule(0, 1, cut).unwrap();
    eventually("the packet is taken", || cluster.fabric.counters(0, 1).unwrap().blocked == 1);
    assert_eq!(cluster.fabric.counters(0, 1).unwrap().forwarded, 0);
}

#[test]
fn rules_without_sense_and_links_that_do_not_exist_are_refused() {
    let Some(isolation) = isolation() else { return };
    let cluster = Cluster::new(2, isolation, 1);
    for (from, to) in [(0, 0), (0, 2), (9, 1)] {
        let refused = cluster.fabric.set_rule(from, to, Rule::default());
        assert!(matches!(refused, Err(FabricError::NoLink { .. })), "{from} to {to}");
    }
    for rule in [
        Rule { loss: 1.1, ..Rule::default() },
        Rule { loss: f64::NAN, ..Rule::default() },
        Rule { rate_bits: Some(0.0), ..Rule::default() },
    ] {
        let refused = cluster.fabric.set_rule(0, 1, rule);
        assert!(matches!(refused, Err(FabricError::WrongRule { .. })), "{rule:?}");
        assert_eq!(cluster.fabric.rule(0, 1).unwrap(), Rule::default());
    }
    assert_eq!(cluster.fabric.directions(), [(0, 1), (1, 0)]);
}

#[test]
fn dropping_a_fabric_joins_its_threads_even_with_packets_on_their_way() {
    let Some(isolation) = isolation() else { return };
    // Node numbers that no other test uses tell this fabric's threads from those beside it.
    let (nodes, ports): (Vec<_>, Vec<_>) = [201, 202]
        .map(|n| {
            let spec = spec(n, &[], NodeLimits::default());
            VirtualNode::build(&spec, isolation).unwrap()
        })
        .into_iter()
        .unzip();
    let fabric = Fabric::start(ports.into_iter().flatten().collect(), 1).unwrap();
    let cluster = Cluster { fabric, nodes };
    // A thread takes its name a moment after it was started.
    eventually("two threads a node", || threads_of(&[201, 202]) == 4);
    let (near, far) = (cluster.udp(0), cluster.udp(1));
    let delay = Nanos::from_secs(3600);
    cluster.fabric.set_rule(201, 202, Rule { delay, ..Rule::default() }).unwrap();
    near.send_to(b"never", far.local_addr().unwrap()).unwrap();
    drop(cluster);
    assert_eq!(threads_of(&[201, 202]), 0);
}

/// Threads of this process that belong to the fabric of these nodes. The kernel keeps 15 letters of a
/// name, which is all of `fabric-read-201`.
fn threads_of(nodes: &[u32]) -> usize {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|name| {
            let number = name.trim().strip_prefix("fabric-").and_then(|n| n.rsplit('-').next());
            number.and_then(|n| n.parse().ok()).is_some_and(|n| nodes.contains(&n))
        })
        .count()
}

#[test]
fn the_benchmark_measures_both_paths_and_a_delay() {
    if isolation().is_none() {
        return;
    }
    let asked = Nanos::from_millis(2);
    let measured = bench::run(&BenchOptions {
        rounds: 1,
        transfer: Duration::from_millis(50),
        pings: 20,
        delays: vec![(asked, 10)],
    })
    .unwrap();
    let [round] = measured.rounds[..] else { panic!("{measured:?}") };
    for path in [round.fabric, round.veth] {
        assert!(path.bits_per_second > 0.0 && path.round_trip.p50 > Nanos::ZERO, "{measured:?}");
    }
    let [delay] = measured.delays[..] else { panic!("{measured:?}") };
    assert!(delay.round_trip.p50 >= Nanos(2 * asked.0), "{measured:?}");
}

/// For people: `cargo test --release -p ringbreaker-agent --test it -- --ignored --nocapture figures`.
#[test]
#[ignore = "takes 15 s and prints figures; asserts nothing about speed"]
fn figures_of_the_benchmark() {
    println!("{:#?}", bench::run(&BenchOptions::default()).unwrap());
}
