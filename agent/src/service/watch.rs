//! Watches the kill switch and ends the case in flight when it is engaged; watches the guard too.
//!
//! A thread of its own: neither a stream that hangs nor a busy runtime stands between the switch and
//! the case. What it saw is known to the session before the case hears of it, so that the
//! controller is told of the switch before it is told of the end of the case.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use ringbreaker_scenarios::event::EndReason;
use tokio::sync::{oneshot, watch};

use crate::{
    case::Case,
    guard::Keeper,
    stop::{Stopped, Switch},
};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(50);

/// The case in flight, as the watch finds it.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<Weak<Case>>>);

impl InFlight {
    pub(super) fn set(&self, case: &Arc<Case>) {
        // A weak pointer is whole whoever panicked.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(case);
    }

    fn get(&self) -> Option<Arc<Case>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

/// Watches until the receiver is dropped.
pub(super) fn start(
    switch: Switch,
    in_flight: InFlight,
    keeper: Arc<Keeper>,
) -> io::Result<watch::Receiver<Option<Stopped>>> {
    let (seen, receiver) = watch::channel(switch.look());
    thread::Builder::new().name("watch".to_owned()).spawn(move || {
        let mut told = Weak::new();
        while !seen.is_closed() {
            if let Err(error) = keeper.tend() {
                tracing::error!(%error, "this agent has no guard");
            }
            let now = switch.look();
            let engaged = now.is_some();
            seen.send_if_modified(|before| {
                let changed = *before != now;
                *before = now;
                changed
            });
            if let Some(case) = in_flight.get().filter(|case| engaged && !case.is_over())
                && !told.ptr_eq(&Arc::downgrade(&case))
            {
                told = Arc::downgrade(&case);
                tracing::warn!(case = %case.id(), "the kill switch is engaged: the case ends");
                let (nobody, _) = oneshot::channel();
                case.finish(EndReason::Interrupted, nobody);
            }
            thread::sleep(PERIOD);
        }
    })?;
    Ok(receiver)
}
