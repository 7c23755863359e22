//! What tests of nodes and the fabric stand on: nodes with unique names, and sockets on them.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    fabric::Fabric,
    node::{NodeSpec, VirtualNode},
};
use ringbreaker_scenarios::{case::NodeLimits, event::Isolation};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The isolation that tests may use, or a printed reason to skip.
pub(crate) fn isolation() -> Option<Isolation> {
    let probed = ringbreaker_agent::node::isolation();
    if probed.isolation == Isolation::Plain {
        println!("SKIPPED: no isolation here: {}", probed.reasons.join("; "));
        return None;
    }
    Some(probed.isolation)
}

/// A spec with a name that no other test uses.
pub(crate) fn spec(node: u32, ranks: &[u32], limits: NodeLimits) -> NodeSpec {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    NodeSpec {
        storage: None,
        node,
        ranks: ranks.to_vec(),
        limits,
        tag: format!("it{}-{count}", std::process::id()),
    }
}

/// Nodes joined by a fabric.
pub(crate) struct Cluster {
    pub(crate) fabric: Fabric,
    pub(crate) nodes: Vec<VirtualNode>,
}

impl Cluster {
    pub(crate) fn new(count: u32, isolation: Isolation, seed: u64) -> Cluster {
        let (nodes, ports): (Vec<_>, Vec<_>) = (0..count)
            .map(|n| VirtualNode::build(&spec(n, &[], NodeLimits::default()), isolation).unwrap())
            .unzip();
        let fabric = Fabric::start(ports.into_iter().flatten().collect(), seed).unwrap();
        Cluster { fabric, nodes }
    }

    pub(crate) fn udp(&self, node: usize) -> UdpSocket {
        let address = self.nodes[node].address();
        let socket = self.nodes[node].inside(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    pub(crate) fn listen(&self, node: usize) -> (TcpListener, SocketAddr) {
        let address = self.nodes[node].address();
        let listener =
            self.nodes[node].inside(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    pub(crate) fn connect(&self, node: usize, to: SocketAddr) -> io::Result<TcpStream> {
        self.nodes[node].inside(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap()
    }

    /// A connection from one node to another: both ends.
    pub(crate) fn tcp(&self, from: usize, to: usize) -> (TcpStream, TcpStream) {
        let (listener, at) = self.listen(to);
        let near = self.connect(from, at).unwrap();
        let (far, _) = listener.accept().unwrap();
        for end in [&near, &far] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
            end.set_nodelay(true).unwrap();
        }
        (near, far)
    }
}

/// Asks until the answer is yes, and fails when patience ends.
pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ask() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
