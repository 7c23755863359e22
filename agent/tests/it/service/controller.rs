//! A controller that does what a test tells it, over the real wire, and an agent in a process of its
//! own that dials it.

use std::{
    path::Path,
    pin::Pin,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use ringbreaker_proto::v1::{
    self, answer,
    command::Action,
    fleet_server::{Fleet, FleetServer},
    from_agent, to_agent,
};
use ringbreaker_scenarios::event::{Event, What};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_stream::{
    StreamExt,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status, Streaming};

use crate::inject::rig::{PATIENCE, PROGRAM};

type ToAgent = mpsc::Sender<Result<v1::ToAgent, Status>>;
type Outgoing = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::ToAgent, Status>> + Send>>;

/// One stream of an agent. Dropping it cuts the stream.
pub(super) struct Session {
    pub(super) register: v1::Register,
    incoming: Streaming<v1::FromAgent>,
    to_agent: ToAgent,
    /// Answer heartbeats.
    pub(super) lively: bool,
}

/// Hands every stream to the test.
struct Door(mpsc::Sender<(Streaming<v1::FromAgent>, ToAgent)>);

#[tonic::async_trait]
impl Fleet for Door {
    type SessionStream = Outgoing;

    async fn session(
        &self,
        request: Request<Streaming<v1::FromAgent>>,
    ) -> Result<Response<Outgoing>, Status> {
        let (to_agent, outgoing) = mpsc::channel(64);
        let session = (request.into_inner(), to_agent);
        self.0.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

/// The server, an agent that serves it, and everything that was stored.
pub(super) struct Rig {
    streams: mpsc::Receiver<(Streaming<v1::FromAgent>, ToAgent)>,
    pub(super) agent: Agent,
    pub(super) directory: tempfile::TempDir,
    /// Every observation once, in order: what a controller would have in its history.
    pub(super) stored: Vec<Event>,
    /// The kill switch, as the last heartbeat told it.
    pub(super) stopped: Option<v1::KillSwitch>,
}

/// The agent's process; ended with the test.
pub(super) struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // Gone already in tests that pass. Its guard heals.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Its end, once it comes.
    pub(super) async fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the agent does not leave");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Rig {
    pub(super) async fn start() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (door, streams) = mpsc::channel(4);
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(FleetServer::new(Door(door)))
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        let state = directory.path().join("state");
        let agent = Command::new(PROGRAM)
            .args(["serve", &address.to_string()])
            .arg(&state)
            .env("RINGBREAKER_KEEP", "0")
            .spawn()
            .unwrap();
        Rig { streams, agent: Agent(agent), directory, stored: Vec::new(), stopped: None }
    }

    pub(super) fn state(&self) -> std::path::PathBuf {
        self.directory.path().join("state")
    }

    /// The next stream of the agent, after its registration; not welcomed yet.
    pub(super) async fn session(&mut self) -> Session {
        let (mut incoming, to_agent) =
            timeout(PATIENCE, self.streams.recv()).await.expect("the agent dials").unwrap();
        let first = timeout(PATIENCE, incoming.next()).await.expect("the agent registers");
        match first.unwrap().unwrap().message {
            Some(from_agent::Message::Register(register)) => {
                Session { register, incoming, to_agent, lively: true }
            }
            other => panic!("the first message is no registration: {other:?}"),
        }
    }

    /// The same, welcomed with a lease of 30 s.
    pub(super) async fn welcomed(&mut self) -> Session {
        let session = self.session().await;
        self.welcome(&session, Duration::from_secs(30)).await;
        session
    }

    pub(super) async fn welcome(&self, session: &Session, lease: Duration) {
        let welcome = v1::Welcome {
            controller_version: "test".to_owned(),
            heartbeat_ms: 20,
            lease_ms: u64::try_from(lease.as_millis()).unwrap(),
            acknowledged: self.stored.len() as u64,
        };
        session.say(to_agent::Message::Welcome(welcome)).await;
    }

    /// Hears one message; an answer is given back, an observation stored.
    async fn hear(&mut self, session: &mut Session, acknowledge: bool) -> Option<v1::Answer> {
        let message = timeout(PATIENCE, session.incoming.next()).await.expect("the agent speaks");
        match message.expect("the stream lives").unwrap().message.unwrap() {
            from_agent::Message::Register(_) => panic!("registered twice on one stream"),
            from_agent::Message::Heartbeat(v1::Heartbeat { number, sent_at_ns, stopped }) => {
                assert!(sent_at_ns > 0);
                let ended = |event: &Event| matches!(event.what, What::Ended { .. });
                if stopped.is_some() && self.stopped.is_none() {
                    assert!(!self.stored.iter().any(ended), "the end came before its cause");
                }
                self.stopped = stopped;
                if session.lively {
                    let answer = v1::HeartbeatAnswer { number, answered_at_ns: sent_at_ns };
                    session.say(to_agent::Message::HeartbeatAnswer(answer)).await;
                }
                None
            }
            from_agent::Message::Observation(observation) => {
                let stored = self.stored.len() as u64;
                assert!(observation.sequence <= stored + 1, "observations are missing");
                if observation.sequence == stored + 1 {
                    self.stored.push(serde_json::from_slice(&observation.event_json).unwrap());
                }
                if acknowledge {
                    session.say(to_agent::Message::Acknowledged(observation.sequence)).await;
                }
                None
            }
            from_agent::Message::Answer(answer) => Some(answer),
        }
    }

    /// Hears the next message, which is no answer.
    pub(super) async fn beat(&mut self, session: &mut Session) {
        assert_eq!(self.hear(session, true).await, None);
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        session: &mut Session,
        id: u64,
        action: Action,
    ) -> answer::Result {
        session.command(id, Some(action)).await;
        self.answer(session, id).await
    }

    pub(super) async fn answer(&mut self, session: &mut Session, id: u64) -> answer::Result {
        loop {
            if let Some(answer) = self.hear(session, true).await {
                assert_eq!(answer.command_id, id);
                return answer.result.unwrap();
            }
        }
    }

    /// Hears until what is stored satisfies this.
    pub(super) async fn until(
        &mut self,
        session: &mut Session,
        what: &str,
        enough: impl Fn(&[Event]) -> bool,
    ) {
        self.until_silent(session, what, true, enough).await;
    }

    /// The same, perhaps without acknowledging anything.
    pub(super) async fn until_silent(
        &mut self,
        session: &mut Session,
        what: &str,
        acknowledge: bool,
        enough: impl Fn(&[Event]) -> bool,
    ) {
        let begin = Instant::now();
        while !enough(&self.stored) {
            assert!(begin.elapsed() < PATIENCE, "no {what} in {:#?}", self.stored);
            if let Some(answer) = self.hear(session, acknowledge).await {
                panic!("an answer that nobody asked for: {answer:?}");
            }
        }
    }

    /// Hears everything until the agent ends the stream.
    pub(super) async fn drain(&mut self, mut session: Session) {
        loop {
            let message = timeout(PATIENCE, session.incoming.next()).await.expect("it ends");
            match message {
                Some(Ok(v1::FromAgent {
                    message: Some(from_agent::Message::Observation(seen)),
                })) => {
                    if seen.sequence == self.stored.len() as u64 + 1 {
                        self.stored.push(serde_json::from_slice(&seen.event_json).unwrap());
                    }
                    session.say(to_agent::Message::Acknowledged(seen.sequence)).await;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    }

    /// The process ids of all ranks that were started.
    pub(super) fn rank_pids(&self) -> Vec<u32> {
        let pid = |event: &Event| match event.what {
            What::RankStarted { pid } => Some(pid),
            _ => None,
        };
        self.stored.iter().filter_map(pid).collect()
    }
}

impl Session {
    pub(super) async fn say(&self, message: to_agent::Message) {
        // The agent may have left; what it then does is what the test looks at.
        let _ = self.to_agent.send(Ok(v1::ToAgent { message: Some(message) })).await;
    }

    pub(super) async fn command(&self, id: u64, action: Option<Action>) {
        self.say(to_agent::Message::Command(v1::Command { id, action })).await;
    }
}

/// Whether a process of this id runs (and is no zombie).
pub(super) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|text| !text.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}
