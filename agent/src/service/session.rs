//! One stream, from registration until it breaks.
//!
//! Guarantees: observations go out in order, at most a window of them unacknowledged; every answer
//! is sent; nothing here waits for the controller to read before it listens again.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use ringbreaker_proto::v1::{self, fleet_client::FleetClient, from_agent, to_agent};
use ringbreaker_scenarios::{event::EndReason, units::Nanos};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant, MissedTickBehavior},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};

use super::{
    ServiceError,
    desk::Desk,
    home::Home,
    reach::{self, Address},
};
use crate::{lease::Lease, spool::Entry, stop::Stopped, sys::clock, wire};

/// Observations on their way without an acknowledgement.
const WINDOW: usize = 512;
/// Messages between us and the transport.
const OUTGOING: usize = 64;
/// How long the controller may take to welcome us.
const WELCOME: Duration = Duration::from_secs(10);
/// How long a leaving agent waits for what it sent to be acknowledged.
const FAREWELL: Duration = Duration::from_secs(2);
/// Heartbeats whose answers may still come.
const BEATS: usize = 32;

/// What a session works with.
pub(super) struct Session<'a> {
    pub(super) home: &'a Home,
    pub(super) probe: &'a v1::NodeProbe,
    pub(super) desk: &'a mut Desk,
    pub(super) lease: &'a mut Lease,
    pub(super) stop: &'a CancellationToken,
}

/// How a session ended.
pub(super) enum End {
    /// In good order: the agent was to leave, and has said everything.
    Left,
    /// The agent cannot go on.
    Fatal(ServiceError),
    /// Worth another attempt.
    Broken {
        /// Whether the controller had accepted us.
        welcomed: bool,
        reason: String,
    },
}

/// An open stream.
struct Stream {
    outgoing: mpsc::Sender<v1::FromAgent>,
    incoming: Streaming<v1::ToAgent>,
    /// The heartbeat that is due; it goes out before anything else.
    due: Option<v1::Heartbeat>,
    /// Answers. They go out after what was observed before they were given, so that nobody takes a
    /// case for finished whose end is still on its way.
    outbox: VecDeque<v1::Answer>,
    /// Heartbeats without an answer: number, and when it was sent.
    beats: BTreeMap<u64, Nanos>,
    next_beat: u64,
    /// The kill switch, as it is told with every heartbeat.
    stopped: watch::Receiver<Option<Stopped>>,
    /// Set when the agent is to leave: when it stops waiting for acknowledgements.
    farewell: Option<Instant>,
}

impl Session<'_> {
    /// Connects, registers, and serves until the stream ends.
    pub(super) async fn keep(mut self, address: &Address) -> End {
        let opened = tokio::select! {
            opened = time::timeout(WELCOME, self.open(address)) => opened,
            () = self.stop.cancelled() => return End::Left,
        };
        let broken = |reason| End::Broken { welcomed: false, reason };
        let (mut stream, welcome) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(Failure::Transport(error))) => return broken(error),
            Ok(Err(Failure::Status(status))) => return status_end(address, &status, false),
            Ok(Err(Failure::Fatal(error))) => return End::Fatal(error),
            Err(_) => return broken(format!("it did not welcome us within {WELCOME:?}")),
        };
        if let Err(error) = self.welcomed(&welcome) {
            return End::Fatal(error);
        }
        let beat = Duration::from_millis(welcome.heartbeat_ms.max(1));
        match self.serve(&mut stream, beat).await {
            Ok(()) => {
                stream.close().await;
                End::Left
            }
            Err(Failure::Transport(reason)) => End::Broken { welcomed: true, reason },
            Err(Failure::Status(status)) => status_end(address, &status, true),
            Err(Failure::Fatal(error)) => End::Fatal(error),
        }
    }

    /// Opens the stream, registers, and waits for the welcome.
    async fn open(&self, address: &Address) -> Result<(Stream, v1::Welcome), Failure> {
        let channel = reach::connect(address).await.map_err(Failure::transport)?;
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let cases = self.desk.case().map(|case| wire::case_ref(case.id())).into_iter().collect();
        let register = v1::Register {
            agent_id: self.home.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            probe: Some(self.probe.clone()),
            cases,
        };
        let message = Some(from_agent::Message::Register(register));
        outgoing.send(v1::FromAgent { message }).await.map_err(Failure::transport)?;
        let mut client = FleetClient::new(channel);
        let response = client.session(ReceiverStream::new(messages)).await?;
        let mut incoming = response.into_inner();
        loop {
            let message = incoming.message().await?.ok_or_else(Failure::ended)?;
            if let Some(to_agent::Message::Welcome(welcome)) = message.message {
                let stream = Stream {
                    outgoing,
                    incoming,
                    due: None,
                    outbox: VecDeque::new(),
                    beats: BTreeMap::new(),
                    next_beat: 0,
                    stopped: self.desk.stopped(),
                    farewell: None,
                };
                return Ok((stream, welcome));
            }
        }
    }

    /// What the controller has stored is forgotten, the rest will be sent again.
    fn welcomed(&mut self, welcome: &v1::Welcome) -> Result<(), ServiceError> {
        tracing::info!(
            agent = self.home.id,
            controller = welcome.controller_version,
            "welcomed by the controller"
        );
        self.home.spool.acknowledge(welcome.acknowledged)?;
        self.home.spool.rewind();
        self.lease.set_length(Nanos::from_millis(welcome.lease_ms.max(1)));
        self.renew(clock::now());
        Ok(())
    }

    fn renew(&mut self, heard: Nanos) {
        self.lease.renew(heard);
        if let Some(case) = self.desk.case() {
            case.renew();
        }
    }

    /// Returns in good order when the agent was to leave and has said everything.
    async fn serve(&mut self, stream: &mut Stream, beat: Duration) -> Result<(), Failure> {
        let mut heart = time::interval(beat);
        heart.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A permit borrows its sender, and the stream is needed beside it.
        let outgoing = stream.outgoing.clone();
        let mut watched = stream.stopped.clone();
        let mut next = None;
        loop {
            if next.is_none() {
                next = self.next(stream)?;
            }
            if next.is_none() && self.may_leave(stream) {
                return Ok(());
            }
            let farewell = stream.farewell;
            let lease_left: Duration = self.lease.ends().since(clock::now()).into();
            let stopping = farewell.is_some();
            tokio::select! {
                permit = outgoing.reserve(), if next.is_some() => {
                    let permit = permit.map_err(Failure::transport)?;
                    permit.send(v1::FromAgent { message: next.take() });
                }
                message = stream.incoming.message() => {
                    let message = message?.ok_or_else(Failure::ended)?;
                    self.hear(stream, message)?;
                }
                answer = self.desk.answer() => {
                    // What is refused because this agent leaves is possible elsewhere: unanswered, it
                    // is tried there.
                    if !(self.stop.is_cancelled() && is_refusal(&answer)) {
                        stream.outbox.push_back(answer);
                    }
                }
                () = self.home.spool.appended() => {}
                _ = heart.tick() => stream.beat(),
                // Told by the next heartbeat, which is the next message.
                Ok(()) = watched.changed() => {}
                () = self.stop.cancelled(), if !stopping => {
                    // Healed before anything else is done.
                    self.desk.end_case(EndReason::Interrupted).await;
                    stream.farewell = Some(Instant::now() + FAREWELL);
                }
                () = sleep_until(farewell) => return Ok(()),
                () = time::sleep(lease_left) => {
                    if self.lease.over(clock::now()) {
                        // Our caller sees the same, ends the case and leaves.
                        return Err(Failure::Transport("heartbeats are not answered".into()));
                    }
                }
            }
            if self.desk.leaving() && self.desk.idle() && stream.farewell.is_none() {
                stream.farewell = Some(Instant::now() + FAREWELL);
            }
        }
    }

    /// What is to be sent next.
    fn next(&self, stream: &mut Stream) -> Result<Option<from_agent::Message>, Failure> {
        // Before whatever it has brought about.
        if stream.stopped.has_changed().unwrap_or(false) {
            stream.beat();
        }
        if let Some(beat) = stream.due.take() {
            return Ok(Some(from_agent::Message::Heartbeat(beat)));
        }
        if let Some(entry) = self.home.spool.next(WINDOW).map_err(Failure::fatal)? {
            return observation(&entry).map(Some);
        }
        if self.home.spool.unsent() > 0 {
            return Ok(None);
        }
        Ok(stream.outbox.pop_front().map(from_agent::Message::Answer))
    }

    /// Everything is said and heard, and the agent is to leave.
    fn may_leave(&self, stream: &Stream) -> bool {
        stream.farewell.is_some() && self.desk.idle() && self.home.spool.waiting() == 0
    }

    fn hear(&mut self, stream: &mut Stream, message: v1::ToAgent) -> Result<(), Failure> {
        match message.message {
            Some(to_agent::Message::Command(command)) => {
                let answer = self.desk.take(command);
                stream.outbox.extend(answer);
            }
            Some(to_agent::Message::HeartbeatAnswer(answer)) => {
                if let Some(sent) = stream.beats.remove(&answer.number) {
                    self.renew(sent);
                }
            }
            Some(to_agent::Message::Acknowledged(sequence)) => {
                self.home.spool.acknowledge(sequence).map_err(Failure::fatal)?;
            }
            // A second welcome says nothing new; what a newer controller adds is not for us.
            Some(to_agent::Message::Welcome(_)) | None => {}
        }
        Ok(())
    }
}

impl Stream {
    fn beat(&mut self) {
        let now = clock::now();
        let stopped = self.stopped.borrow_and_update().as_ref().map(wire::kill_switch);
        let beat = v1::Heartbeat { number: self.next_beat, sent_at_ns: now.0, stopped };
        self.beats.insert(self.next_beat, now);
        self.next_beat += 1;
        while self.beats.len() > BEATS {
            self.beats.pop_first();
        }
        // In place of one that could not be sent yet: it is stale by now.
        self.due = Some(beat);
    }

    /// Ends our half, so that all of it is delivered, and waits a moment for the other.
    async fn close(self) {
        let Stream { outgoing, mut incoming, .. } = self;
        drop(outgoing);
        let drained = async { while let Ok(Some(_)) = incoming.message().await {} };
        // The controller may be gone already; all that matters is healed.
        drop(time::timeout(Duration::from_secs(1), drained).await);
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn observation(entry: &Entry) -> Result<from_agent::Message, Failure> {
    let event_json = serde_json::to_vec(&entry.event).map_err(Failure::transport)?;
    Ok(from_agent::Message::Observation(v1::Observation {
        sequence: entry.sequence,
        case: Some(wire::case_ref(&entry.case)),
        event_json,
    }))
}

/// Why a session cannot go on.
enum Failure {
    Transport(String),
    Status(Box<Status>),
    Fatal(ServiceError),
}

impl Failure {
    fn transport(error: impl std::error::Error) -> Failure {
        // The outermost message of a transport error says nothing ("transport error").
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            reason = format!("{reason}: {inner}");
            source = inner.source();
        }
        Failure::Transport(reason)
    }

    fn ended() -> Failure {
        Failure::Transport("the controller ended the stream".to_owned())
    }

    fn fatal(error: impl Into<ServiceError>) -> Failure {
        Failure::Fatal(error.into())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Status(Box::new(status))
    }
}

fn is_refusal(answer: &v1::Answer) -> bool {
    matches!(answer.result, Some(v1::answer::Result::Refused(_)))
}

/// A controller that refuses us will do so again; anything else may pass.
fn status_end(address: &Address, status: &Status, welcomed: bool) -> End {
    match status.code() {
        Code::InvalidArgument
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unimplemented => End::Fatal(ServiceError::Refused {
            address: address.to_string(),
            reason: status.message().to_owned(),
        }),
        _ => End::Broken { welcomed, reason: status.message().to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_refuses_this_agent_is_not_asked_again() {
        let address = reach::loopback("127.0.0.1:7447").unwrap();
        let refusal = Status::permission_denied("this controller starts its own agents");
        match status_end(&address, &refusal, false) {
            End::Fatal(error) => assert!(error.to_string().contains("starts its own"), "{error}"),
            _ => panic!("it would be asked again"),
        }
        let gone = Status::unavailable("gone");
        assert!(matches!(status_end(&address, &gone, true), End::Broken { welcomed: true, .. }));
    }
}
