//! Where a case puts its observations.

use std::sync::Arc;

use ringbreaker_scenarios::{
    case::Rank,
    event::{Event, What},
    units::Nanos,
};

use super::CaseId;
use crate::{
    spool::{Spool, SpoolError},
    sys::clock,
};

/// The case's way into the spool. Remembers the first observation that could not be written: a
/// history with a hole must not pass for a whole one.
#[derive(Debug)]
pub(super) struct History {
    spool: Arc<Spool>,
    case: CaseId,
    lost: Option<SpoolError>,
}

impl History {
    pub(super) fn new(spool: Arc<Spool>, case: CaseId) -> History {
        History { spool, case, lost: None }
    }

    /// Something happened to a rank, or to the case as a whole.
    pub(super) fn note(&mut self, at: Nanos, rank: Option<Rank>, what: What) {
        if self.lost.is_some() {
            return;
        }
        if let Err(error) = self.spool.append(&self.case, Event { at, rank, what }) {
            tracing::error!(%error, case = %self.case, "an observation is lost");
            self.lost = Some(error);
        }
    }

    /// Something happened to the case just now.
    pub(super) fn now(&mut self, what: What) {
        self.note(clock::now(), None, what);
    }

    /// Why the history is not whole; none: it is.
    pub(super) fn lost(&self) -> Option<&SpoolError> {
        self.lost.as_ref()
    }
}
