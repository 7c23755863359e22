//! The stream to the controller: an agent's life from its start until it leaves.
//!
//! [`run`] is what `ringbreaker agent` calls. It keeps one stream, comes back when it breaks, carries
//! out commands once however often they are sent, and leaves when it is told to, when it is
//! signalled, or when the controller was not heard for a whole lease. However it leaves, its case
//! has ended and its faults are healed first. It decides nothing about a case: see [`crate::case`].

mod answers;
mod desk;
mod error;
mod home;
mod offer;
mod reach;
mod session;
mod watch;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ringbreaker_proto::v1;
use ringbreaker_scenarios::{
    event::{EndReason, Isolation},
    units::Nanos,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time,
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use error::ServiceError;

use self::{
    desk::Desk,
    home::Home,
    session::{End, Session},
    watch::InFlight,
};
use crate::{case::Surroundings, lease::Lease, stop::Switch, sys::clock};

/// How long the controller may be silent before this agent has heard what it wants.
const FIRST_LEASE: Nanos = Nanos::from_secs(30);
/// Between attempts to reach it: at first, and at most.
const BACKOFF: Duration = Duration::from_millis(20);
const MOST_BACKOFF: Duration = Duration::from_secs(1);

/// How an agent is to run.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where the controller listens, such as `127.0.0.1:7447`.
    pub controller: String,
    /// Directory for journals and spools of all agents of this machine.
    pub state: PathBuf,
    /// The lane of the controller's own cluster that this agent is, if it is one.
    pub lane: Option<u32>,
    /// Copies of libnccl to offer, beside those in the usual places.
    pub nccl: Vec<PathBuf>,
    /// How to keep ranks apart; none: the best that works here.
    pub isolation: Option<Isolation>,
}

/// Serves a controller until it says to leave, `stop` is cancelled, SIGINT or SIGTERM arrives, or
/// the controller was not heard for a whole lease. A further signal does not skip healing.
///
/// # Errors
/// When the agent cannot begin, is refused, has lost its controller, or could not undo everything;
/// the message says what to do.
pub async fn run(options: AgentOptions, stop: CancellationToken) -> Result<(), ServiceError> {
    let address = reach::loopback(&options.controller)?;
    let stop = stop.child_token();
    let _listening = cancel_on_signals(&stop)?;
    let (state, name) = (options.state.clone(), home::name(options.lane));
    let note = address.to_string();
    let home = blocking(move || Home::open(&state, name, &note)).await??;
    let (nccl, wanted) = (options.nccl.clone(), options.isolation);
    let journal = Arc::clone(&home.journal);
    let offer = match blocking(move || offer::offer(&nccl, wanted, &journal)).await? {
        Ok(offer) => offer,
        Err(error) => {
            blocking(move || home.close()).await??;
            return Err(error);
        }
    };
    let switch = Switch::of(&options.state);
    let surroundings = Surroundings {
        isolation: offer.isolation,
        journal: Arc::clone(&home.journal),
        home: home.directory.clone(),
        spool: Arc::clone(&home.spool),
        switch: switch.clone(),
        nccl: offer.probe.nccl.first().map(|library| PathBuf::from(&library.path)),
        gpus: u32::try_from(offer.probe.gpus.len()).unwrap_or(u32::MAX),
        idle_gpus: offer.probe.gpus.iter().map(|gpu| (gpu.index, gpu.free_bytes)).collect(),
        keep: std::env::var_os("RINGBREAKER_KEEP").is_some_and(|value| value == "1"),
    };
    let in_flight = InFlight::default();
    let stopped = watch::start(switch, in_flight.clone(), Arc::clone(&home.keeper))
        .map_err(|source| ServiceError::Step { step: "watch the kill switch", source })?;
    let mut desk = Desk::new(surroundings, in_flight, stopped);
    let served = serve(address, &home, offer.probe, &mut desk, &stop).await;
    let because = match &served {
        Ok(()) => EndReason::Interrupted,
        Err(_) => EndReason::AgentLost,
    };
    // Does nothing when the case has ended in order.
    desk.end_case(because).await;
    drop(desk);
    let closed = blocking(move || home.close()).await?;
    served.and(closed)
}

/// Keeps a stream until there is a reason to leave.
async fn serve(
    address: reach::Address,
    home: &Home,
    probe: v1::NodeProbe,
    desk: &mut Desk,
    stop: &CancellationToken,
) -> Result<(), ServiceError> {
    let mut lease = Lease::new(FIRST_LEASE, clock::now());
    let mut backoff = BACKOFF;
    let mut heard = false;
    let mut told = String::new();
    loop {
        let session = Session { home, probe: &probe, desk, lease: &mut lease, stop };
        match session.keep(&address).await {
            End::Left => return Ok(()),
            End::Fatal(error) => return Err(error),
            End::Broken { welcomed, reason } => {
                heard |= welcomed;
                // Every attempt, but not the same words again and again.
                if reason != told {
                    tell_of_attempt(&address, heard, &reason);
                }
                told = reason;
                backoff = if welcomed { BACKOFF } else { (backoff * 2).min(MOST_BACKOFF) };
            }
        }
        let left = lease.ends().since(clock::now());
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = time::sleep(backoff.min(left.into())) => {}
        }
        if lease.over(clock::now()) {
            let address = address.to_string();
            return Err(match heard {
                true => ServiceError::ControllerLost { address, lease: lease.length() },
                false => ServiceError::NoController { address, waited: FIRST_LEASE },
            });
        }
    }
}

fn tell_of_attempt(address: &reach::Address, heard: bool, reason: &str) {
    match heard {
        true => {
            tracing::warn!(%address, reason, "the stream to the controller is gone; trying again")
        }
        false => tracing::warn!(
            %address,
            reason,
            "no controller answers there yet; trying again (`ringbreaker serve` starts one)"
        ),
    }
}

/// Cancels `stop` at SIGINT, SIGTERM or SIGHUP (a terminal that is closed), every time, as long as the guard lives.
fn cancel_on_signals(stop: &CancellationToken) -> Result<DropGuard, ServiceError> {
    let failed = |source| ServiceError::Step { step: "listen to signals", source };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let (stop, over) = (stop.clone(), CancellationToken::new());
    let guard = over.clone().drop_guard();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                () = over.cancelled() => return,
            }
            if stop.is_cancelled() {
                tracing::warn!("already leaving; faults are healed first");
            }
            stop.cancel();
        }
    });
    Ok(guard)
}

/// Runs what blocks off the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ServiceError::Step {
        step: "finish a piece of work",
        source: std::io::Error::other(error),
    })
}
