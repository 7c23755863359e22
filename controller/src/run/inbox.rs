//! The one queue that everything reaches a run through.

use ringbreaker_proto::v1;
use tokio::sync::{mpsc, oneshot};

use crate::server::Message;

/// Inputs that may wait; whoever is faster than the event loop waits itself.
const WAITING: usize = 1024;

/// What can happen to a run.
#[derive(Debug)]
pub(crate) enum Event {
    /// A session said something.
    Agent(Message),
    /// An agent that we started ended.
    ChildEnded { lane: u32, pid: u32, how: String },
    /// Somebody engages the kill switch through us; the answer is due when every agent has answered.
    Stop { switch: v1::KillSwitch, reply: oneshot::Sender<v1::StopReport> },
    /// The user (or the system) wants us to stop.
    Interrupted,
}

/// The event loop's end and everybody else's.
pub(crate) fn inbox() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
    mpsc::channel(WAITING)
}

/// Turns every SIGINT and SIGTERM into an event.
pub(crate) fn watch_signals(inbox: mpsc::Sender<Event>) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if inbox.send(Event::Interrupted).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}
