//! Ports inside nodes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use ringbreaker_agent::sys::sysctl;
use ringbreaker_scenarios::fault::{ExhaustPorts, FaultKind, TakePort};

use super::rig::{Rig, can_isolate, node};

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
    let (mut injector, _) = rig.bitten(FaultKind::TakePort(TakePort { port: None }), node(0));
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
    let fault = FaultKind::TakePort(TakePort { port: Some(4701) });
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
