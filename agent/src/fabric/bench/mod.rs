//! How fast and how exact the fabric is, beside the kernel's own veth in the same run.
//!
//! Machines differ and change from moment to moment, so both paths are measured in turns, and only
//! ratios of one run mean something. Called by `ringbreaker bench fabric`; blocks for about 15 s with
//! the default options.

mod path;

use std::{io, net::Ipv4Addr, time::Duration};

use ringbreaker_scenarios::{case::NodeLimits, event::Isolation, units::Nanos};

use super::{Fabric, FabricError, Rule};
use crate::{
    node::{self, NodeError, NodeSpec, VirtualNode},
    sys::{interface, namespace::Namespaces, netlink},
};
use path::Path;

/// Name and addresses of the veth pair to compare with.
const VETH: &str = "veth0";
const VETH_ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];
/// Pause between pings without a delay: long enough that none waits for another.
const PING_PAUSE: Duration = Duration::from_micros(100);

/// How much to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// Rounds; each measures both paths.
    pub rounds: u32,
    /// How long one TCP stream is sent in a round.
    pub transfer: Duration,
    /// Round trips in a round.
    pub pings: u32,
    /// One-way delays, each with a number of round trips.
    pub delays: Vec<(Nanos, u32)>,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        let delays = [(1, 400), (5, 120), (50, 20)];
        BenchOptions {
            rounds: 3,
            transfer: Duration::from_secs(1),
            pings: 2_000,
            delays: delays.map(|(ms, pings)| (Nanos::from_millis(ms), pings)).to_vec(),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricBench {
    /// Both paths, in turns.
    pub rounds: Vec<Round>,
    /// Delays that were asked for, and what they came to.
    pub delays: Vec<DelayFigures>,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Through the fabric, without a rule.
    pub fabric: PathFigures,
    /// Through a veth pair.
    pub veth: PathFigures,
}

/// One path in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathFigures {
    /// Payload of one TCP stream, in bits a second.
    pub bits_per_second: f64,
    /// Round trip of a UDP datagram of 64 bytes.
    pub round_trip: RoundTrip,
}

/// Quantiles of round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Median.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
}

/// A delay each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayFigures {
    /// What was asked for, one way.
    pub asked: Nanos,
    /// Round trips; twice `asked` would be perfect. Contains the path's own round trip and the waking
    /// of idle CPUs.
    pub round_trip: RoundTrip,
    /// How much later than planned the fabric delivered, on the way there.
    pub lateness: RoundTrip,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There are no namespaces here.
    #[error("the fabric cannot be measured here: {reason}")]
    NotPossible {
        /// Why, and what would help.
        reason: String,
    },
    /// A node could not be built.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The fabric could not be started.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A step failed.
    #[error("could not {step}: {source}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BenchError {
    fn step(step: &'static str) -> impl FnOnce(io::Error) -> BenchError {
        move |source| BenchError::Step { step, source }
    }
}

impl From<io::Error> for BenchError {
    fn from(source: io::Error) -> BenchError {
        BenchError::Step { step: "make a namespace", source }
    }
}

/// Measures. Everything made for it is gone afterwards.
///
/// # Errors
/// Why it could not be measured; there are no partial results.
pub fn run(options: &BenchOptions) -> Result<FabricBench, BenchError> {
    let probed = node::isolation();
    if probed.isolation == Isolation::Plain {
        return Err(BenchError::NotPossible { reason: probed.reasons.join("; ") });
    }
    let pair = Pair::build(probed.isolation)?;
    let through_fabric = pair.path()?;
    let (veth_near, veth_far) = veth_pair()?;
    let [from, to] = VETH_ADDRESSES;
    let through_veth = Path::new(&veth_near, &veth_far, from, to);
    let mut bench = FabricBench { rounds: Vec::new(), delays: Vec::new() };
    for _ in 0..options.rounds {
        let fabric =
            figures(&through_fabric, options).map_err(BenchError::step("use the fabric"))?;
        let veth =
            figures(&through_veth, options).map_err(BenchError::step("use the veth pair"))?;
        bench.rounds.push(Round { fabric, veth });
    }
    drop(pair);
    for &(asked, pings) in &options.delays {
        bench.delays.push(delay(probed.isolation, asked, pings)?);
    }
    Ok(bench)
}

/// Measures one delay on a fabric of its own, whose lateness then is that of this delay alone.
fn delay(isolation: Isolation, asked: Nanos, pings: u32) -> Result<DelayFigures, BenchError> {
    let pair = Pair::build(isolation)?;
    for (from, to) in [(0, 1), (1, 0)] {
        pair.fabric.set_rule(from, to, Rule { delay: asked, ..Rule::default() })?;
    }
    let round_trip =
        pair.path()?.ping(pings, Duration::ZERO).map_err(BenchError::step("use the fabric"))?;
    let counters = pair.fabric.counters(0, 1)?;
    let lateness = RoundTrip {
        p50: counters.lateness_p50.unwrap_or_default(),
        p99: counters.lateness_p99.unwrap_or_default(),
    };
    Ok(DelayFigures { asked, round_trip, lateness })
}

/// Two nodes joined by a fabric.
struct Pair {
    fabric: Fabric,
    near: VirtualNode,
    far: VirtualNode,
}

impl Pair {
    fn build(isolation: Isolation) -> Result<Pair, BenchError> {
        let (near, near_port) = build(0, isolation)?;
        let (far, far_port) = build(1, isolation)?;
        let fabric = Fabric::start([near_port, far_port].into_iter().flatten().collect(), 1)?;
        Ok(Pair { fabric, near, far })
    }

    fn path(&self) -> Result<Path<'_>, BenchError> {
        match (self.near.namespaces(), self.far.namespaces()) {
            (Some(near), Some(far)) => {
                Ok(Path::new(near, far, self.near.address(), self.far.address()))
            }
            _ => Err(BenchError::NotPossible { reason: "nodes have no namespaces".into() }),
        }
    }
}

fn build(
    node: u32,
    isolation: Isolation,
) -> Result<(VirtualNode, Option<super::TunPort>), BenchError> {
    let tag = format!("bench-{}-{:x}", std::process::id(), crate::sys::clock::now().0);
    let spec =
        NodeSpec { node, ranks: Vec::new(), limits: NodeLimits::default(), storage: None, tag };
    Ok(VirtualNode::build(&spec, isolation)?)
}

fn figures(path: &Path<'_>, options: &BenchOptions) -> io::Result<PathFigures> {
    Ok(PathFigures {
        bits_per_second: path.stream(options.transfer)?,
        round_trip: path.ping(options.pings, PING_PAUSE)?,
    })
}

/// Two namespaces joined by a veth pair, configured as nodes are.
fn veth_pair() -> Result<(Namespaces, Namespaces), BenchError> {
    let pin = || {
        node::pin_congestion_control();
        Ok::<(), io::Error>(())
    };
    let (far, ()) = Namespaces::create(pin)?;
    let (near, ()) = Namespaces::create(|| {
        pin()?;
        netlink::create_veth(VETH, &far)
    })
    .map_err(BenchError::step("make a veth pair"))?;
    for (end, address) in [&near, &far].into_iter().zip(VETH_ADDRESSES) {
        end.inside(|| {
            interface::set_address(VETH, address, 24)?;
            interface::bring_up(VETH)
        })
        .and_then(|configured| configured)
        .map_err(BenchError::step("configure the veth pair"))?;
    }
    Ok((near, far))
}
