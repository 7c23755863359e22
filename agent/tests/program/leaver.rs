//! A rank that leaves its communicators while another thread asks for their status, as a watchdog
//! does that comes late.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ringbreaker_agent::rank::{
    backend::{CallError, CommStatus, Communicator},
    nccl,
};

/// Each is one chance for the two threads to meet.
const COMMUNICATORS: usize = 100;
/// Between two answers, so that whoever leaves gets a word in.
const PAUSE: Duration = Duration::from_micros(300);
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the exit code; what a misused library does to the process comes before it.
pub(crate) fn play(library: &Path) -> i32 {
    match leave_all(library) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn leave_all(library: &Path) -> Result<(), CallError> {
    let library = nccl::open(Some(library), Some(0))?;
    let id = library.make_id()?;
    for _ in 0..COMMUNICATORS {
        let communicator = library.begin_init(&id, 0, 1)?;
        while communicator.status() != CommStatus::Ready {
            thread::sleep(Duration::from_millis(1));
        }
        leave(&communicator)?;
    }
    Ok(())
}

fn leave(communicator: &Arc<dyn Communicator>) -> Result<(), CallError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Asking again at once while it is busy brings this thread in right behind the last
                // look of the one that leaves, which is where destruction follows.
                match communicator.status() {
                    CommStatus::InProgress => std::hint::spin_loop(),
                    _ => thread::sleep(PAUSE),
                }
            }
        });
        let left = communicator.finalize(PATIENCE);
        over.store(true, Ordering::Relaxed);
        left
    })
}
