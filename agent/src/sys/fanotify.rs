//! Opens of files that are answered late (fanotify(7), permission events).

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter},
    os::fd::AsFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::fanotify::{
        EventFFlags, Fanotify, FanotifyEvent, FanotifyResponse, InitFlags, MarkFlags, MaskFlags,
        Response,
    },
};
use ringbreaker_scenarios::units::Nanos;

use super::clock;

/// An open that is held up: the kernel does not go on with it before it has our answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whose it is.
    pub pid: i32,
    /// When the kernel asked.
    pub at: Nanos,
}

/// Holds up everybody who opens a file in a directory, but for this process. Dropping it lets everybody
/// through; so does the kernel when this process dies.
#[derive(Debug)]
pub struct HeldOpens {
    first: Arc<Mutex<Option<Held>>>,
    /// Closing it tells the thread to leave.
    telling: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl HeldOpens {
    /// Begins, for files right below `directory`, as the caller's mount namespace has it.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN outside of any user namespace, or in a kernel without permission events.
    pub fn below(directory: &Path, by: Duration) -> io::Result<HeldOpens> {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let group = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC)?;
        let mask = MaskFlags::FAN_OPEN_PERM | MaskFlags::FAN_EVENT_ON_CHILD;
        // By the mount's root and not by its name: a cover that is laid over it later changes nothing.
        let at = std::fs::File::open(directory)?;
        group.mark(MarkFlags::FAN_MARK_ADD, mask, at.as_fd(), Some("."))?;
        let (told, telling) = io::pipe()?;
        let first = Arc::new(Mutex::new(None));
        let report = Arc::clone(&first);
        let thread = thread::Builder::new()
            .name("held-opens".into())
            .spawn(move || serve(&group, &told, by, &report))?;
        Ok(HeldOpens { first, telling: Some(telling), thread: Some(thread) })
    }

    /// The first open that was held up.
    pub fn first(&self) -> Option<Held> {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldOpens {
    fn drop(&mut self) {
        drop(self.telling.take());
        if let Some(thread) = self.thread.take() {
            // It panics never, and if it did its group is closed: everybody is let through.
            let _left = thread.join();
        }
    }
}

/// An open that waits for its answer.
struct Waiting {
    since: Instant,
    event: FanotifyEvent,
}

/// Until it is told to leave: hears who opens, and answers each after its time. What waits when this
/// returns is let through by the closing of the group.
fn serve(group: &Fanotify, told: &PipeReader, by: Duration, report: &Mutex<Option<Held>>) {
    let mut waiting: VecDeque<Waiting> = VecDeque::new();
    let own = std::process::id().cast_signed();
    loop {
        let left = waiting.front().map(|next| by.saturating_sub(next.since.elapsed()));
        // Rounded up: nobody is let through early.
        let timeout = left.map(|left| left + Duration::from_millis(1));
        let timeout = timeout.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = [
            PollFd::new(group.as_fd(), PollFlags::POLLIN),
            PollFd::new(told.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        if fds[1].revents().is_some_and(|found| !found.is_empty()) {
            return;
        }
        for event in group.read_events().unwrap_or_default() {
            if event.pid() == own {
                allow(group, &event);
                continue;
            }
            let held = Held { pid: event.pid(), at: clock::now() };
            report.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(held);
            waiting.push_back(Waiting { since: Instant::now(), event });
        }
        let is_due = |next: &Waiting| next.since.elapsed() >= by;
        while waiting.front().is_some_and(is_due) {
            waiting.pop_front().iter().for_each(|next| allow(group, &next.event));
        }
    }
}

fn allow(group: &Fanotify, event: &FanotifyEvent) {
    let Some(file) = event.fd() else { return };
    // One who was killed meanwhile needs no answer.
    let _answered = group.write_response(FanotifyResponse::new(file, Response::FAN_ALLOW));
}
