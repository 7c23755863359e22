//! Leaving in good order while a watchdog still looks.

use std::{fs, fs::File};

use ringbreaker_agent::sys::process::{SpawnRequest, Stdio, spawn};
use ringbreaker_scenarios::event::ExitStatus;

use super::{super::ground::PATIENCE, fake::Fake};

#[test]
fn a_communicator_is_not_destroyed_under_a_watchdog_that_asks_for_its_status() {
    let (fake, dir) = (Fake::build(&[]), tempfile::tempdir().unwrap());
    let path = dir.path().join("log");
    let log = File::create(&path).unwrap();
    let directory = fake.directory().to_string_lossy().into_owned();
    let process = spawn(SpawnRequest {
        program: env!("CARGO_BIN_EXE_ringbreaker-agent-test").into(),
        args: vec!["leave-under-watch".into(), fake.library().into()],
        env: [("LD_LIBRARY_PATH".to_owned(), directory)].into(),
        stderr: Stdio::Fd(log.into()),
        ..SpawnRequest::default()
    })
    .unwrap();
    let status = process.wait_timeout(PATIENCE).unwrap();
    assert_eq!(
        (status, fs::read_to_string(path).unwrap()),
        (Some(ExitStatus::Code(0)), String::new())
    );
}
