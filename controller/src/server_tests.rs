//! The service over real loopback sockets, with a client in place of an agent.

use ringbreaker_proto::v1::fleet_client::FleetClient;

use super::*;

/// A served fleet, and the event loop's end of it.
struct Served {
    messages: mpsc::Receiver<Event>,
    address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<Result<(), Internal>>,
}

impl Served {
    async fn new() -> Served {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, messages) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let server = serve(listener, sender, stop.clone());
        Served { messages, address, stop, server }
    }

    /// The next message of any session.
    async fn next(&mut self) -> Option<Message> {
        match self.messages.recv().await? {
            Event::Agent(message) => Some(message),
            other => panic!("{other:?}"),
        }
    }

    /// Opens a stream and sends these messages on it.
    async fn dial(&self) -> (mpsc::Sender<v1::FromAgent>, Streaming<v1::ToAgent>) {
        let (outgoing, stream) = mpsc::channel(16);
        let mut client = FleetClient::connect(format!("http://{}", self.address)).await.unwrap();
        let incoming = client.session(ReceiverStream::new(stream)).await.unwrap().into_inner();
        (outgoing, incoming)
    }
}

fn from(message: from_agent::Message) -> v1::FromAgent {
    v1::FromAgent { message: Some(message) }
}

fn register(id: &str) -> v1::FromAgent {
    let register = v1::Register { agent_id: id.to_owned(), ..Default::default() };
    from(from_agent::Message::Register(register))
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = listen(address.parse().unwrap()).await.unwrap_err();
        assert!(matches!(refused, Error::Expected(Expected::NotLoopback { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn messages_arrive_in_order_and_the_end_of_the_stream_is_told() {
    let mut served = Served::new().await;
    let (agent, _incoming) = served.dial().await;
    agent.send(register("a")).await.unwrap();
    for sequence in 1..=3 {
        let observation = v1::Observation { sequence, ..Default::default() };
        agent.send(from(from_agent::Message::Observation(observation))).await.unwrap();
    }
    drop(agent);
    let Some(Message::Registered { register, to_agent, .. }) = served.next().await else {
        panic!("no registration")
    };
    assert_eq!(register.agent_id, "a");
    for want in 1..=3 {
        match served.next().await {
            Some(Message::Observation { observation, .. }) => {
                assert_eq!(observation.sequence, want);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(served.next().await, Some(Message::Closed { .. })));
    drop(to_agent);
}

#[tokio::test]
async fn a_heartbeat_is_answered_with_our_clock_and_tells_the_difference() {
    let mut served = Served::new().await;
    let (agent, mut incoming) = served.dial().await;
    agent.send(register("a")).await.unwrap();
    let Some(Message::Registered { to_agent, .. }) = served.next().await else {
        panic!("no registration")
    };
    let sent = clock::now();
    let beat = v1::Heartbeat { number: 9, sent_at_ns: sent.0, stopped: None };
    agent.send(from(from_agent::Message::Heartbeat(beat))).await.unwrap();
    let answer = incoming.next().await.unwrap().unwrap().message;
    let Some(to_agent::Message::HeartbeatAnswer(answer)) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.number, 9);
    assert!(answer.answered_at_ns >= sent.0);
    match served.next().await {
        Some(Message::Heartbeat { clock_ahead, .. }) => assert!(clock_ahead >= 0),
        other => panic!("{other:?}"),
    }
    drop(to_agent);
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_register_is_refused() {
    let served = Served::new().await;
    let (agent, mut incoming) = served.dial().await;
    agent.send(from(from_agent::Message::Heartbeat(v1::Heartbeat::default()))).await.unwrap();
    let refusal = incoming.next().await.unwrap().unwrap_err();
    assert!(refusal.message().contains("must be Register"), "{refusal}");
}

#[tokio::test]
async fn the_server_ends_when_it_is_told_even_with_open_sessions() {
    let mut served = Served::new().await;
    let (agent, _incoming) = served.dial().await;
    agent.send(register("a")).await.unwrap();
    let registered = served.next().await;
    served.stop.cancel();
    drop(registered);
    served.server.await.unwrap().unwrap();
}
