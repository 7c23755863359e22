//! Ports inside nodes.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket,
    sockopt,
};
use ringbreaker_agent::sys::sysctl;
use ringbreaker_scenarios::fault::{
    ExhaustPorts, FaultKind, MuteListener, NarrowPorts, PortRole, TakePort,
};

use super::rig::{PATIENCE, Rig, can_isolate, node, within};

/// Binds as NCCL does: with SO_REUSEADDR and SO_REUSEPORT when a port is given.
fn bind_as_a_job(address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    if port != 0 {
        setsockopt(&made, sockopt::ReuseAddr, &true)?;
        setsockopt(&made, sockopt::ReusePort, &true)?;
    }
    bind(made.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, port)))?;
    Ok(made)
}

fn in_use<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[test]
fn take_port_refuses_the_rendezvous_port_on_its_node_alone_until_healed() {
    if !can_isolate("take_port") {
        return;
    }
    let rig = Rig::small();
    let (mut injector, _) = rig.bitten(FaultKind::TakePort(TakePort::default()), node(0));
    let try_on = |n: usize| {
        let address = rig.nodes[n].address();
        rig.inside(n, move || bind_as_a_job(address, 4700))
    };
    assert!(in_use(&try_on(0)));
    assert!(try_on(1).is_ok(), "the other node's port is taken too");
    injector.heal().unwrap();
    let job = try_on(0).unwrap();
    // The job has the port now; healing again must neither fail nor take it away.
    injector.heal().unwrap();
    drop(job);
}

#[test]
fn take_port_of_a_port_that_the_job_holds_already_is_refused() {
    if !can_isolate("take_port of a port in use") {
        return;
    }
    let rig = Rig::small();
    let _job = rig.inside(0, || TcpListener::bind("0.0.0.0:4701")).unwrap();
    let fault = FaultKind::TakePort(TakePort { port: Some(4701), ..TakePort::default() });
    let mut injector = rig.injector(fault, node(0)).unwrap();
    assert!(injector.inject().unwrap_err().to_string().contains("4701"));
    injector.heal().unwrap();
}

#[test]
fn exhaust_ports_leaves_exactly_what_was_asked_for_and_gives_all_back() {
    if !can_isolate("exhaust_ports") {
        return;
    }
    for leave in [0, 3] {
        let rig = Rig::small();
        let range = "net.ipv4.ip_local_port_range";
        let before = rig.inside(0, || sysctl::read(range)).unwrap();
        let fault = FaultKind::ExhaustPorts(ExhaustPorts { leave });
        let (mut injector, _) = rig.bitten(fault, node(0));
        let automatic = || bind_as_a_job(Ipv4Addr::UNSPECIFIED, 0);
        let taken: Vec<_> = (0..leave).map(|_| rig.inside(0, automatic).unwrap()).collect();
        assert!(in_use(&rig.inside(0, automatic)), "more than {leave} ports are left");
        let connect = rig.inside(0, || {
            let listener = TcpListener::bind("127.0.0.1:4702")?;
            TcpStream::connect(listener.local_addr()?)
        });
        assert_eq!(connect.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        assert!(rig.inside(1, automatic).is_ok(), "the other node is exhausted too");
        injector.heal().unwrap();
        drop(taken);
        assert_eq!(rig.inside(0, || sysctl::read(range)).unwrap(), before);
        let many: Result<Vec<_>, _> = (0..200).map(|_| rig.inside(0, automatic)).collect();
        assert_eq!(many.unwrap().len(), 200);
    }
}

#[test]
fn take_port_of_a_role_takes_its_number_over_both_families() {
    if !can_isolate("take_port of RAS") {
        return;
    }
    let rig = Rig::small();
    let fault = TakePort { role: PortRole::Ras, ..TakePort::default() };
    let (mut injector, evidence) = rig.bitten(FaultKind::TakePort(fault), node(1));
    assert!(evidence.contains("28028"), "{evidence}");
    let try_it = |address: &str| rig.inside(1, || TcpListener::bind(address));
    assert!(in_use(&try_it("127.0.0.1:28028")));
    if evidence.contains("IPv6") {
        assert!(in_use(&try_it("[::1]:28028")));
    } else {
        println!("SKIPPED: the IPv6 half: this kernel has no IPv6");
    }
    injector.heal().unwrap();
    try_it("127.0.0.1:28028").unwrap();
    if evidence.contains("IPv6") {
        try_it("[::1]:28028").unwrap();
    }
}

#[test]
fn mute_listener_lets_the_job_bind_and_takes_every_connection_until_healed() {
    if !can_isolate("mute_listener") {
        return;
    }
    let rig = Rig::small();
    let fault = FaultKind::MuteListener(MuteListener { port: None });
    let mut injector = rig.injector(fault, node(0)).unwrap();
    injector.inject().unwrap();
    assert_eq!(injector.witness(), None, "nobody has called yet");
    let address = rig.nodes[0].address();
    let job: TcpListener = rig
        .inside(0, move || {
            let bound = bind_as_a_job(address, 4700)?;
            listen(&bound, Backlog::MAXCONN)?;
            io::Result::Ok(TcpListener::from(bound))
        })
        .unwrap();
    job.set_nonblocking(true).unwrap();
    let call = || rig.inside(1, move || TcpStream::connect((address, 4700))).unwrap();
    let mut callers: Vec<TcpStream> = (0..8).map(|_| call()).collect();
    let all = || injector.witness().filter(|evidence| evidence.starts_with("8 connections"));
    assert!(within(PATIENCE, all).is_some(), "the stranger does not get all of them");
    assert_eq!(job.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "the job was called");
    callers[0].write_all(b"hello").unwrap();
    callers[0].set_nonblocking(true).unwrap();
    assert_eq!(callers[0].read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    injector.heal().unwrap();
    callers[0].set_nonblocking(false).unwrap();
    assert!(matches!(callers[0].read(&mut [0]), Ok(0) | Err(_)), "the stranger hangs up");
    job.set_nonblocking(false).unwrap();
    let _heard = call();
    job.accept().unwrap();
    injector.heal().unwrap();
}

#[test]
fn narrow_ports_leaves_a_job_that_many_and_gives_all_back() {
    if !can_isolate("narrow_ports") {
        return;
    }
    let rig = Rig::small();
    let range = "net.ipv4.ip_local_port_range";
    let before = rig.inside(0, || sysctl::read(range)).unwrap();
    let (mut injector, evidence) =
        rig.bitten(FaultKind::NarrowPorts(NarrowPorts { to: 4 }), node(0));
    assert!(evidence.contains("of 65532 to 65535"), "{evidence}");
    let automatic = || bind_as_a_job(Ipv4Addr::UNSPECIFIED, 0);
    let taken: Vec<_> = (0..4).map(|_| rig.inside(0, automatic).unwrap()).collect();
    assert!(in_use(&rig.inside(0, automatic)), "more than four ports are there");
    assert!(injector.witness().unwrap().contains("address already in use"));
    assert!(rig.inside(1, automatic).is_ok(), "the other node is narrow too");
    injector.heal().unwrap();
    drop(taken);
    assert_eq!(rig.inside(0, || sysctl::read(range)).unwrap(), before);
    let many: Result<Vec<_>, _> = (0..100).map(|_| rig.inside(0, automatic)).collect();
    assert_eq!(many.unwrap().len(), 100);
}
