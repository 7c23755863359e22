//! A whole rank process on the fakes: what the backend makes of everything that a call can answer.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use ringbreaker_agent::{
    rank::protocol::{FromRank, RANK_FD, RankSpec, ToRank},
    sys::process::{SpawnRequest, Stdio, spawn},
};
use ringbreaker_scenarios::{
    case::{WatchdogPlan, WorkloadPlan},
    event::{Detection, ExitStatus, What},
    units::{Bytes, Nanos},
    words::{Backend, Collective, Detector, Dtype, ErrorHandling},
};
use tempfile::TempDir;

use super::{super::ground::PATIENCE, fake::Fake};

/// What a rank on the fakes is to do.
struct Play<'a> {
    fake: &'a str,
    env: &'a [(&'a str, &'a str)],
    workload: WorkloadPlan,
    watchdog: WatchdogPlan,
}

impl Default for Play<'_> {
    fn default() -> Self {
        let workload = WorkloadPlan {
            collectives: vec![Collective::AllReduce],
            dtype: Dtype::F32,
            bytes: vec![Bytes(4096)],
            iterations: 6,
            warmup: 2,
            interval: Nanos::ZERO,
            check: true,
            checkpoint: None,
        };
        let watchdog = WatchdogPlan { poll: Nanos::from_millis(5), ..WatchdogPlan::default() };
        Play { fake: "", env: &[], workload, watchdog }
    }
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    seen: Vec<What>,
    status: ExitStatus,
    log: String,
}

impl Play<'_> {
    fn run(self) -> Outcome {
        let (fake, dir) = (Fake::build(&[]), tempfile::tempdir().unwrap());
        let (socket, theirs) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut env: BTreeMap<String, String> =
            self.env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        env.insert("FAKE_NCCL".into(), self.fake.into());
        env.insert("LD_LIBRARY_PATH".into(), fake.directory().to_string_lossy().into_owned());
        let log = File::create(dir.path().join("log")).unwrap();
        let process = spawn(SpawnRequest {
            program: env!("CARGO_BIN_EXE_ringbreaker-agent-test").into(),
            args: vec!["rank".into(), "--spec".into(), self.spec(&fake, &dir).into()],
            env,
            stderr: Stdio::Fd(log.into()),
            fds: vec![(OwnedFd::from(theirs), RANK_FD)],
            ..SpawnRequest::default()
        })
        .unwrap();
        let seen = converse(socket);
        let status = process.wait_timeout(PATIENCE).unwrap().expect("the rank ends");
        Outcome { seen, status, log: fs::read_to_string(dir.path().join("log")).unwrap() }
    }

    fn spec(&self, fake: &Fake, dir: &TempDir) -> std::path::PathBuf {
        let spec = RankSpec {
            checkpoint: None,
            backend: Backend::Nccl,
            rank: 0,
            world: 1,
            workload: self.workload.clone(),
            watchdog: self.watchdog.clone(),
            announce: Vec::new(),
            nccl: Some(fake.library()),
            gpu: Some(0),
            blackbox: None,
            blackbox_ops: 64,
        };
        let file = dir.path().join("spec.json");
        fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
        file
    }
}

/// Plays the agent until the rank's socket closes; returns what the rank observed.
fn converse(socket: UnixStream) -> Vec<What> {
    let mut ears = BufReader::new(socket.try_clone().unwrap());
    let mut mouth = socket;
    // A rank that has left hears nothing; its exit status is looked at afterwards.
    let mut say = |what: &ToRank| {
        let _ = writeln!(mouth, "{}", serde_json::to_string(what).unwrap());
    };
    let mut seen = Vec::new();
    let mut line = String::new();
    while ears.read_line(&mut line).unwrap() > 0 {
        match serde_json::from_str(&line).unwrap() {
            FromRank::Ready { .. } => say(&ToRank::MakeId),
            FromRank::Id { id } => say(&ToRank::Init { id }),
            FromRank::WarmedUp => say(&ToRank::Go),
            FromRank::Observed(event) => seen.push(event.what),
        }
        line.clear();
    }
    seen
}

impl Outcome {
    fn detection(&self) -> &Detection {
        let mut all = self.seen.iter().filter_map(|what| match what {
            What::Detected(detection) => Some(detection),
            _ => None,
        });
        all.next().unwrap_or_else(|| panic!("nothing was detected: {self:?}"))
    }

    fn clean(&self) {
        assert_eq!(self.status, ExitStatus::Code(0), "{self:?}");
        assert!(!self.seen.iter().any(|w| matches!(w, What::Detected(_))), "{self:?}");
    }
}

fn watched(error_handling: ErrorHandling) -> WatchdogPlan {
    WatchdogPlan { error_handling, ..Play::default().watchdog }
}

#[test]
fn every_collective_and_type_goes_through_pending_calls_and_leaves_in_good_order() {
    for dtype in Dtype::ALL {
        let workload = WorkloadPlan {
            collectives: Collective::ALL.to_vec(),
            dtype: *dtype,
            bytes: vec![Bytes(4), Bytes(1 << 20), Bytes(5 << 20)],
            iterations: 21,
            ..Play::default().workload
        };
        let outcome = Play { workload, ..Play::default() }.run();
        outcome.clean();
        let stack = outcome.seen.iter().find_map(|what| match what {
            What::Stack { versions } => Some(versions.clone()),
            _ => None,
        });
        assert_eq!(stack.unwrap()["nccl"], "2.28.9");
    }
}

#[test]
fn a_call_that_is_done_at_once_is_as_good_as_one_in_progress() {
    Play { fake: "call=0", ..Play::default() }.run().clean();
}

#[test]
fn a_kernel_that_does_nothing_is_found_by_its_poisoned_buffer() {
    let outcome = Play { fake: "from=4,wrong=1", ..Play::default() }.run();
    assert_eq!(outcome.detection().detector, Detector::DataCheck, "{outcome:?}");
    assert!(outcome.seen.iter().any(|w| matches!(w, What::WrongData { op: 4, element: 0, .. })));
}

#[test]
fn an_asynchronous_error_is_noticed_with_its_code_and_nccls_last_words_and_aborts_once() {
    // 8 is newer than the bindings that anybody compiled against.
    for code in [6, 8] {
        let fake = format!("from=4,hang=1,async={code}");
        let watchdog = watched(ErrorHandling::CleanupOnly);
        let outcome = Play { fake: &fake, watchdog, ..Play::default() }.run();
        let found = outcome.detection();
        // Whoever asks first tells: the waiting thread by a call error, the watchdog otherwise.
        assert!(matches!(found.detector, Detector::AsyncError | Detector::CallError), "{found:?}");
        assert_eq!((found.code, found.op), (Some(code), Some(4)), "{found:?}");
        assert_eq!(found.message, "fake asynchronous error; of two lines");
        assert_eq!(outcome.status, ExitStatus::Code(3), "{outcome:?}");
    }
}

#[test]
fn a_hang_is_aborted_at_its_deadline_and_the_event_that_then_reports_success_is_not_believed() {
    let watchdog = WatchdogPlan {
        op_timeout: Some(Nanos::from_millis(300)),
        ..watched(ErrorHandling::CleanupOnly)
    };
    let outcome = Play { fake: "from=4,hang=1", watchdog, ..Play::default() }.run();
    assert_eq!(outcome.detection().detector, Detector::RankWatchdog, "{outcome:?}");
    assert_eq!(outcome.detection().op, Some(4));
    assert!(outcome.seen.contains(&What::AbortEnded { code: 0 }), "{outcome:?}");
    assert!(!outcome.seen.iter().any(|w| matches!(w, What::WrongData { .. })), "{outcome:?}");
    assert_eq!(outcome.log, "", "the communicator was misused");
}

#[test]
fn a_rank_that_leaves_beside_a_stuck_kernel_does_not_wait_for_it() {
    let watchdog = WatchdogPlan {
        op_timeout: Some(Nanos::from_millis(300)),
        ..watched(ErrorHandling::SkipCleanup)
    };
    let outcome = Play { fake: "from=4,hang=1", watchdog, ..Play::default() }.run();
    assert_eq!(outcome.status, ExitStatus::Signal(6), "{outcome:?}");
}

#[test]
fn errors_of_calls_of_init_and_of_cuda_keep_their_codes_and_words() {
    for (fake, code, words) in [
        ("from=4,call=2", 2, "fake error 2"),
        ("init=5", 5, "fake error 5"),
        ("from=4,cuda=700", 1, "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS: in the fake's words"),
    ] {
        let outcome = Play { fake, ..Play::default() }.run();
        let found = outcome.detection();
        assert_eq!((found.detector, found.code), (Detector::CallError, Some(code)), "{outcome:?}");
        assert_eq!(found.message, words);
        assert_eq!(outcome.status, ExitStatus::Code(3), "{outcome:?}");
    }
}

#[test]
fn an_init_that_was_made_blocking_still_has_a_deadline_and_can_be_aborted() {
    let env = [("NCCL_COMM_BLOCKING", "1")];
    Play { env: &env, ..Play::default() }.run().clean();
    let watchdog = WatchdogPlan {
        init_timeout: Some(Nanos::from_millis(300)),
        ..watched(ErrorHandling::CleanupOnly)
    };
    let outcome = Play { fake: "blocks=1", env: &env, watchdog, ..Play::default() }.run();
    assert_eq!(outcome.detection().detector, Detector::RankWatchdog, "{outcome:?}");
    assert!(outcome.seen.contains(&What::AbortEnded { code: 0 }), "{outcome:?}");
    assert_eq!((outcome.status, outcome.log.as_str()), (ExitStatus::Code(3), ""));
}

#[test]
fn the_transport_is_read_from_the_log_of_nccl() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nccl.log");
    fs::write(&file, "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n").unwrap();
    let env = [("NCCL_DEBUG_FILE", file.to_str().unwrap())];
    let outcome = Play { env: &env, ..Play::default() }.run();
    let name = "NET/Socket".to_owned();
    assert!(outcome.seen.contains(&What::Transport { name }), "{outcome:?}");
}
