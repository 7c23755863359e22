//! `serve` and one agent that the test plays itself over the real stream: what an agent is told and
//! when, what survives a lost connection, what becomes of its observations.

use std::net::SocketAddr;

use ringbreaker_proto::v1::{
    self, answer, command::Action, fleet_client::FleetClient, from_agent, to_agent,
};
use ringbreaker_scenarios::{
    event::{EndReason, Event, ExitStatus, What},
    units::Nanos,
};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::Streaming;

use crate::program::{PATIENCE, Place, Running};

const CLEAN: &str = r#"
summary = "two ranks, nothing breaks"
[cluster]
nodes = 2
ranks_per_node = 1
[workload]
collective = "all_reduce"
bytes = "4 KiB"
iterations = 5
"#;

/// An agent that a test plays.
struct Agent {
    to_controller: mpsc::Sender<v1::FromAgent>,
    from_controller: Streaming<v1::ToAgent>,
    sequence: u64,
}

impl Agent {
    async fn dial(address: SocketAddr, id: &str, cases: Vec<v1::CaseRef>) -> Agent {
        let (to_controller, outgoing) = mpsc::channel(64);
        let probe = v1::NodeProbe { hostname: "scripted".into(), pid: 77, ..Default::default() };
        let register =
            v1::Register { agent_id: id.into(), version: "test".into(), probe: Some(probe), cases };
        let mut client = FleetClient::connect(format!("http://{address}")).await.unwrap();
        let message = Some(from_agent::Message::Register(register));
        to_controller.send(v1::FromAgent { message }).await.unwrap();
        let stream = client.session(ReceiverStream::new(outgoing)).await.unwrap();
        Agent { to_controller, from_controller: stream.into_inner(), sequence: 0 }
    }

    async fn say(&self, message: from_agent::Message) {
        self.to_controller.send(v1::FromAgent { message: Some(message) }).await.unwrap();
    }

    /// The next message, whatever it is.
    async fn next(&mut self) -> to_agent::Message {
        let next = tokio::time::timeout(PATIENCE, self.from_controller.next());
        next.await.expect("a message in time").expect("a message").unwrap().message.unwrap()
    }

    /// The next command; everything else is passed over.
    async fn command(&mut self) -> (u64, Action) {
        loop {
            if let to_agent::Message::Command(command) = self.next().await {
                return (command.id, command.action.unwrap());
            }
        }
    }

    async fn acknowledged(&mut self) -> u64 {
        loop {
            if let to_agent::Message::Acknowledged(sequence) = self.next().await {
                return sequence;
            }
        }
    }

    async fn done(&self, command_id: u64) {
        let result = Some(answer::Result::Done(v1::Done {}));
        self.say(from_agent::Message::Answer(v1::Answer { command_id, result })).await;
    }

    async fn examined(&self, command_id: u64) {
        let finding = v1::SettingFinding {
            name: "NCCL_SOCKET_TIMEOUT".into(),
            read: false,
            reason: "no library contains the name".into(),
        };
        let examined = v1::SettingsExamined { findings: vec![finding] };
        let result = Some(answer::Result::Settings(examined));
        self.say(from_agent::Message::Answer(v1::Answer { command_id, result })).await;
    }

    async fn observe(&mut self, case: &Option<v1::CaseRef>, rank: Option<u32>, what: What) {
        self.sequence += 1;
        let event = Event { at: Nanos(self.sequence * 1_000_000), rank, what };
        let observation = v1::Observation {
            sequence: self.sequence,
            case: case.clone(),
            event_json: serde_json::to_vec(&event).unwrap(),
        };
        self.say(from_agent::Message::Observation(observation)).await;
    }

    async fn all_ranks_exit(&mut self, case: &Option<v1::CaseRef>) {
        for rank in 0..2 {
            let what = What::RankExited { status: ExitStatus::Code(0), by_harness: false };
            self.observe(case, Some(rank), what).await;
        }
    }
}

fn serve(place: &Place) -> (Running, SocketAddr) {
    let file = place.scenario("clean.toml", CLEAN);
    let arguments =
        ["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0", "--format", "json"];
    let mut controller = place.start(&arguments);
    let line = controller.hear("listening on");
    let address = line.split_whitespace().nth(2).unwrap().trim_end_matches(';');
    (controller, address.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_goes_from_prepare_to_the_report_and_the_agent_is_told_to_leave() {
    let place = Place::new();
    let (controller, address) = serve(&place);
    let mut agent = Agent::dial(address, "scripted", vec![]).await;
    let to_agent::Message::Welcome(welcome) = agent.next().await else { panic!("no welcome") };
    assert_eq!((welcome.acknowledged, welcome.lease_ms), (0, 10_000));

    let (id, action) = agent.command().await;
    let Action::ExamineSettings(examine) = action else { panic!("{action:?}") };
    assert_eq!(examine.backend, "host");
    agent.examined(id).await;

    let (id, action) = agent.command().await;
    let Action::Prepare(prepare) = action else { panic!("{action:?}") };
    assert_eq!((prepare.nodes, prepare.ranks.len()), (2, 2));
    assert!(std::path::Path::new(&prepare.directory).is_dir(), "{}", prepare.directory);
    let case = prepare.case;
    agent.done(id).await;

    let (id, action) = agent.command().await;
    assert!(matches!(action, Action::Begin(_)), "{action:?}");
    agent.observe(&case, None, What::Began).await;
    agent.observe(&case, None, What::Steady).await;
    agent.done(id).await;
    agent.all_ranks_exit(&case).await;

    let (id, action) = agent.command().await;
    let Action::Finish(finish) = action else { panic!("{action:?}") };
    assert_eq!(finish.because, "ranks-gone");
    agent.observe(&case, None, What::Ended { because: EndReason::RanksGone }).await;
    while agent.acknowledged().await < 5 {}
    agent.done(id).await;

    let (id, action) = agent.command().await;
    assert!(matches!(action, Action::Leave(_)), "{action:?}");
    agent.done(id).await;
    drop(agent);

    let ended = controller.end();
    assert!(matches!(ended.code, Some(0 | 10 | 11)), "{ended:#?}");
    assert!(ended.stderr.contains("NCCL_SOCKET_TIMEOUT has no effect"), "{}", ended.stderr);
    let runs = place.run(&["runs", "--format", "json"]).must_end_with(0).json();
    assert_eq!((runs[0]["planned"].as_u64(), runs[0]["finished"].as_u64()), (Some(1), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_loses_nothing_and_doubles_nothing() {
    let place = Place::new();
    let (controller, address) = serve(&place);
    let mut agent = Agent::dial(address, "scripted", vec![]).await;
    let (id, _) = agent.command().await;
    agent.examined(id).await;
    let (prepare_id, action) = agent.command().await;
    let Action::Prepare(prepare) = action else { panic!("{action:?}") };
    let case = prepare.case;
    agent.done(prepare_id).await;
    let (begin_id, _) = agent.command().await;
    agent.observe(&case, None, What::Began).await;
    agent.observe(&case, None, What::Steady).await;
    while agent.acknowledged().await < 2 {}
    // `Begin` is not answered and the connection goes.
    drop(agent);

    let mut agent = Agent::dial(address, "scripted", case.iter().cloned().collect()).await;
    let to_agent::Message::Welcome(welcome) = agent.next().await else { panic!("no welcome") };
    assert_eq!(welcome.acknowledged, 2);
    let (id, action) = agent.command().await;
    assert!(matches!(action, Action::Begin(_)), "{action:?}");
    assert_eq!(id, begin_id, "the same command under the same number");
    agent.done(id).await;
    // It sends all it has, as if it had not heard the last acknowledgement.
    agent.observe(&case, None, What::Began).await;
    agent.observe(&case, None, What::Steady).await;
    agent.all_ranks_exit(&case).await;
    let (id, action) = agent.command().await;
    assert!(matches!(action, Action::Finish(_)), "{action:?}");
    agent.done(id).await;
    let (_, action) = agent.command().await;
    assert!(matches!(action, Action::Leave(_)), "{action:?}");
    drop(agent);

    controller.end();
    let report = place.run(&["report", "--format", "history"]).must_end_with(0).json();
    let events = report["cases"][0]["events"].as_array().unwrap();
    let times: Vec<_> = events.iter().map(|event| event["at"].as_u64().unwrap()).collect();
    // Two before the loss, two ranks that exit after it, and the end that the controller notes.
    assert_eq!(times[..4], [1_000_000, 2_000_000, 3_000_000, 4_000_000], "{report:#}");
    assert_eq!(times.len(), 5, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_the_agent_refuses_is_recorded_with_the_reason() {
    let place = Place::new();
    let (controller, address) = serve(&place);
    let mut agent = Agent::dial(address, "scripted", vec![]).await;
    let (id, _) = agent.command().await;
    agent.examined(id).await;
    let (command_id, action) = agent.command().await;
    assert!(matches!(action, Action::Prepare(_)), "{action:?}");
    let refused = v1::Refused { reason: "no TUN device here".into() };
    let result = Some(answer::Result::Refused(refused.clone()));
    agent.say(from_agent::Message::Answer(v1::Answer { command_id, result })).await;
    let (command_id, action) = agent.command().await;
    assert!(matches!(action, Action::Finish(_)), "{action:?}");
    let result = Some(answer::Result::Refused(refused));
    agent.say(from_agent::Message::Answer(v1::Answer { command_id, result })).await;
    let (_, action) = agent.command().await;
    assert!(matches!(action, Action::Leave(_)), "{action:?}");
    drop(agent);
    let ended = controller.end().must_end_with(11);
    assert!(ended.stderr.contains("not-runnable"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_finishes_the_case_in_flight_and_leaves_it_to_resume() {
    let place = Place::new();
    let (controller, address) = serve(&place);
    let mut agent = Agent::dial(address, "scripted", vec![]).await;
    let (id, _) = agent.command().await;
    agent.examined(id).await;
    let (id, _) = agent.command().await;
    agent.done(id).await;
    let (id, _) = agent.command().await;
    agent.done(id).await;
    controller.signal(nix::sys::signal::Signal::SIGINT);
    let (id, action) = agent.command().await;
    let Action::Finish(finish) = action else { panic!("{action:?}") };
    assert_eq!(finish.because, "interrupted");
    controller.signal(nix::sys::signal::Signal::SIGTERM);
    agent.done(id).await;
    let (_, action) = agent.command().await;
    assert!(matches!(action, Action::Leave(_)), "{action:?}");
    drop(agent);
    let ended = controller.end().must_end_with(130);
    assert!(ended.stderr.contains("run --resume"), "{}", ended.stderr);
    let runs = place.run(&["runs", "--format", "json"]).must_end_with(0).json();
    assert_eq!((runs[0]["planned"].as_u64(), runs[0]["finished"].as_u64()), (Some(1), Some(0)));
}
