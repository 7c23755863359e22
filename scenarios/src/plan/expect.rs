//! What must hold in one cell: the general expectation, then what is more exact, key by key.

use super::Values;
use crate::{
    case::Expectation,
    scenario::{CLEAN, Expect, Limit, Scenario},
    words::Outcome,
};

/// What must hold in a cell.
pub(super) fn of_cell(scenario: &Scenario, column: &str, settings: &Values) -> Expectation {
    // Beside columns with faults, the clean one is what they are compared with: it must complete,
    // and expectations that do not name it are not about it.
    let control = column == CLEAN && !scenario.faults.is_empty();
    let mut expect = if control {
        Expect { outcome: Some(vec![Outcome::Completed]), ..Expect::default() }
    } else {
        scenario.expect.clone()
    };
    for fault in scenario.faults.iter().filter(|f| f.column == column) {
        expect.overlay(&fault.expect);
    }
    for exception in &scenario.exceptions {
        if exception.is_about(column, settings) && (!control || exception.columns.is_some()) {
            expect.overlay(&exception.expect);
        }
    }
    Expectation {
        outcome: expect.outcome.unwrap_or_default(),
        detector: expect.detector.unwrap_or_default(),
        detected_within: expect.detected_within.and_then(Limit::time),
        ended_within: expect.ended_within.and_then(Limit::time),
        no_leftovers: Some(expect.no_leftovers.unwrap_or(true)),
    }
}

impl Expect {
    /// Takes over every key that the other gives.
    fn overlay(&mut self, other: &Expect) {
        let Expect { outcome, detector, detected_within, ended_within, no_leftovers } = other;
        overlay(&mut self.outcome, outcome);
        overlay(&mut self.detector, detector);
        overlay(&mut self.detected_within, detected_within);
        overlay(&mut self.ended_within, ended_within);
        overlay(&mut self.no_leftovers, no_leftovers);
    }
}

fn overlay<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
    if other.is_some() {
        mine.clone_from(other);
    }
}
