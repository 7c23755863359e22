//! The gRPC side: one task a session, which turns messages into [`Message`]s for the event loop and
//! answers heartbeats by itself (they measure clocks, so they must not queue).
//!
//! Guarantees: messages of a session arrive in order; a session whose agent cannot be understood is
//! closed with a reason. It decides nothing and stores nothing.

use std::{net::SocketAddr, pin::Pin};

use ringbreaker_proto::v1::{
    self,
    control_server::{Control, ControlServer},
    fleet_server::{Fleet, FleetServer},
    from_agent, to_agent,
};
use ringbreaker_scenarios::units::Nanos;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    clock,
    error::{Error, Expected, Internal},
    run::{inbox::Event, lane::AgentId},
};

/// Commands and acknowledgements that may wait for a slow agent before its session is given up.
const OUTGOING: usize = 1024;

/// The way to an agent: dropping it ends the session.
pub(crate) type ToAgent = mpsc::Sender<Result<v1::ToAgent, Status>>;

/// Tells sessions of the same agent apart.
pub(crate) type SessionId = u64;

/// What sessions tell the event loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// An agent introduced itself.
    Registered { session: SessionId, register: Box<v1::Register>, to_agent: ToAgent },
    /// An observation, as it came; possibly a repetition.
    Observation { session: SessionId, agent: AgentId, observation: v1::Observation },
    /// An answer to a command; possibly a repetition.
    Answer { session: SessionId, agent: AgentId, answer: v1::Answer },
    /// The agent is alive; its clock and ours differ by no more than this (includes the way here). And
    /// the kill switch of its machine, if it is engaged.
    Heartbeat { agent: AgentId, clock_ahead: i64, stopped: Option<v1::KillSwitch> },
    /// The stream ended.
    Closed { session: SessionId, agent: AgentId },
}

/// Refuses any address that others could reach.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    if !address.ip().is_loopback() {
        return Err(Expected::NotLoopback { address }.into());
    }
    TcpListener::bind(address).await.map_err(|source| Expected::Listen { address, source }.into())
}

/// Serves agents until the token is cancelled.
pub(crate) fn serve(
    listener: TcpListener,
    inbox: mpsc::Sender<Event>,
    stop: CancellationToken,
) -> JoinHandle<Result<(), Internal>> {
    let control = ControlServer::new(Switchboard { inbox: inbox.clone() });
    let fleet = Sessions { inbox, stop: stop.clone(), next: Default::default() };
    tokio::spawn(async move {
        tonic::transport::Server::builder()
            .add_service(FleetServer::new(fleet))
            .add_service(control)
            .serve_with_incoming_shutdown(at_once(listener), stop.cancelled_owned())
            .await
            .map_err(|source| Internal::Server { source: Box::new(source) })
    })
}

/// Connections that send every order at once: an order held back until the agent acknowledges the one
/// before costs a case 40 ms each time.
fn at_once(listener: TcpListener) -> impl Stream<Item = std::io::Result<TcpStream>> {
    TcpListenerStream::new(listener).map(|accepted| {
        let stream = accepted?;
        stream.set_nodelay(true)?;
        Ok(stream)
    })
}

/// The service: hands each stream to a task of its own.
struct Sessions {
    inbox: mpsc::Sender<Event>,
    /// Ends the tasks of sessions, so that the server can end.
    stop: CancellationToken,
    next: std::sync::atomic::AtomicU64,
}

#[tonic::async_trait]
impl Fleet for Sessions {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::ToAgent, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::FromAgent>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (to_agent, outgoing) = mpsc::channel(OUTGOING);
        let session = Session { id, inbox: self.inbox.clone(), to_agent };
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = session.run(request.into_inner()) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

/// What people tell a run.
struct Switchboard {
    inbox: mpsc::Sender<Event>,
}

#[tonic::async_trait]
impl Control for Switchboard {
    async fn stop(
        &self,
        request: Request<v1::StopRequest>,
    ) -> Result<Response<v1::StopReport>, Status> {
        let switch = request.into_inner().stop.unwrap_or_default();
        let (reply, report) = oneshot::channel();
        let over = |_| Status::unavailable("the run is over");
        self.inbox.send(Event::Stop { switch, reply }).await.map_err(|_| over(()))?;
        report.await.map(Response::new).map_err(|_| over(()))
    }
}

/// One stream.
struct Session {
    id: SessionId,
    inbox: mpsc::Sender<Event>,
    to_agent: ToAgent,
}

impl Session {
    async fn run(self, mut incoming: Streaming<v1::FromAgent>) {
        let Some(agent) = self.register(&mut incoming).await else { return };
        let Session { id: session, inbox, to_agent } = self;
        // From here on the event loop alone keeps the session open.
        let to_agent = to_agent.downgrade();
        while let Some(Ok(message)) = incoming.next().await {
            let agent = agent.clone();
            let message = match message.message {
                Some(from_agent::Message::Heartbeat(beat)) => {
                    let Some(to_agent) = to_agent.upgrade() else { break };
                    let now = clock::now();
                    if answer_heartbeat(&to_agent, &beat, now).await.is_err() {
                        break;
                    }
                    let clock_ahead = difference(now, Nanos(beat.sent_at_ns));
                    Message::Heartbeat { agent, clock_ahead, stopped: beat.stopped }
                }
                Some(from_agent::Message::Observation(observation)) => {
                    Message::Observation { session, agent, observation }
                }
                Some(from_agent::Message::Answer(answer)) => {
                    Message::Answer { session, agent, answer }
                }
                Some(from_agent::Message::Register(_)) | None => {
                    let refusal = Status::invalid_argument("an agent registers once a stream");
                    if let Some(to_agent) = to_agent.upgrade() {
                        // The stream ends either way.
                        let _ = to_agent.send(Err(refusal)).await;
                    }
                    break;
                }
            };
            if inbox.send(Event::Agent(message)).await.is_err() {
                break;
            }
        }
        // Nobody listens any more when the run is over.
        let _ = inbox.send(Event::Agent(Message::Closed { session, agent })).await;
    }

    /// The first message of a stream must introduce the agent.
    async fn register(&self, incoming: &mut Streaming<v1::FromAgent>) -> Option<AgentId> {
        let first = incoming.next().await?.ok()?;
        let register = match first.message {
            Some(from_agent::Message::Register(register)) if !register.agent_id.is_empty() => {
                Box::new(register)
            }
            _ => {
                let refusal = "the first message of a stream must be Register with an agent_id";
                let _ = self.to_agent.send(Err(Status::invalid_argument(refusal))).await;
                return None;
            }
        };
        let agent = register.agent_id.clone();
        let to_agent = self.to_agent.clone();
        let message = Message::Registered { session: self.id, register, to_agent };
        self.inbox.send(Event::Agent(message)).await.ok()?;
        Some(agent)
    }
}

async fn answer_heartbeat(
    to_agent: &ToAgent,
    beat: &v1::Heartbeat,
    now: Nanos,
) -> Result<(), mpsc::error::SendError<Result<v1::ToAgent, Status>>> {
    let answer = v1::HeartbeatAnswer { number: beat.number, answered_at_ns: now.0 };
    let message = Some(to_agent::Message::HeartbeatAnswer(answer));
    to_agent.send(Ok(v1::ToAgent { message })).await
}

/// `ours - theirs`, in nanoseconds.
fn difference(ours: Nanos, theirs: Nanos) -> i64 {
    let difference = i128::from(ours.0) - i128::from(theirs.0);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
