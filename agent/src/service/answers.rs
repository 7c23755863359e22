//! What was answered to which command, so that a repeated command repeats its answer.
//!
//! Pure. Guarantees: a command is carried out at most once as long as it is remembered; answers
//! that are not given yet are never forgotten; of the others the newest are kept.

use std::collections::{BTreeMap, VecDeque};

use ringbreaker_proto::v1;

/// How many given answers are kept. A controller has some commands in flight, not hundreds.
const KEPT: usize = 256;

/// What to do with a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// It was never seen: carry it out.
    New,
    /// It is being carried out; its answer will come.
    InHand,
    /// It was answered.
    Answered(v1::Answer),
}

/// All commands that are remembered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// None: being carried out.
    known: BTreeMap<u64, Option<v1::Answer>>,
    /// Answered ones, oldest first.
    given: VecDeque<u64>,
}

impl Answers {
    /// A command arrived; when it is new it is in hand from now on.
    pub(super) fn arrived(&mut self, command: u64) -> Known {
        match self.known.get(&command) {
            Some(Some(answer)) => Known::Answered(answer.clone()),
            Some(None) => Known::InHand,
            None => {
                self.known.insert(command, None);
                Known::New
            }
        }
    }

    /// A command was carried out or refused; gives the answer to send.
    pub(super) fn settle(&mut self, command: u64, result: v1::answer::Result) -> v1::Answer {
        let answer = v1::Answer { command_id: command, result: Some(result) };
        self.known.insert(command, Some(answer.clone()));
        self.given.push_back(command);
        if self.given.len() > KEPT
            && let Some(oldest) = self.given.pop_front()
        {
            self.known.remove(&oldest);
        }
        answer
    }

    /// Whether nothing is in hand.
    pub(super) fn idle(&self) -> bool {
        self.known.values().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> v1::answer::Result {
        v1::answer::Result::Done(v1::Done {})
    }

    #[test]
    fn a_repeated_command_is_not_carried_out_again_and_repeats_its_answer() {
        let mut answers = Answers::default();
        assert_eq!(answers.arrived(7), Known::New);
        assert_eq!(answers.arrived(7), Known::InHand);
        assert!(!answers.idle());
        let answer = answers.settle(7, done());
        assert_eq!(answers.arrived(7), Known::Answered(answer));
        assert!(answers.idle());
    }

    #[test]
    fn memory_is_bounded_and_what_is_in_hand_is_never_forgotten() {
        let mut answers = Answers::default();
        answers.arrived(0);
        for command in 1..=2 * KEPT as u64 {
            answers.arrived(command);
            answers.settle(command, done());
        }
        assert_eq!(answers.known.len(), KEPT + 1);
        assert_eq!(answers.arrived(0), Known::InHand);
        assert_eq!(answers.arrived(1), Known::New);
        assert!(matches!(answers.arrived(2 * KEPT as u64), Known::Answered(_)));
    }
}
