//! The kill switch, as far as a run has to do with it: who was told, who has answered, who waits for
//! that. Pure bookkeeping; the crew sends, the driver ends the run.

use std::collections::BTreeMap;

use ringbreaker_agent::stop::Stopped;
use ringbreaker_proto::v1::{self, answer};
use tokio::sync::oneshot;

use super::lane::{AgentId, CommandId};

/// Everybody who asked for a stop and is not answered yet.
#[derive(Default)]
pub(crate) struct Stopping {
    asked: Vec<Asked>,
    /// The switch, once the run knows of it.
    switch: Option<v1::KillSwitch>,
}

struct Asked {
    waiting: BTreeMap<CommandId, AgentId>,
    report: v1::StopReport,
    reply: oneshot::Sender<v1::StopReport>,
}

impl Stopping {
    /// Somebody asks; these agents were told.
    pub(crate) fn ask(
        &mut self,
        run: &str,
        waiting: BTreeMap<CommandId, AgentId>,
        reply: oneshot::Sender<v1::StopReport>,
    ) {
        let report = v1::StopReport { run: run.to_owned(), agents: Vec::new() };
        self.asked.push(Asked { waiting, report, reply });
        self.reply();
    }

    /// Notes the switch; whether the run hears of it for the first time.
    pub(crate) fn is_news(&mut self, switch: &v1::KillSwitch) -> bool {
        let news = self.switch.is_none();
        self.switch.get_or_insert_with(|| switch.clone());
        news
    }

    /// What an agent that comes late is told.
    pub(crate) fn switch(&self) -> Option<v1::KillSwitch> {
        self.switch.clone()
    }

    /// An agent answered; false: another command than ours.
    pub(crate) fn answered(&mut self, answer: &v1::Answer) -> bool {
        let trouble = match &answer.result {
            Some(answer::Result::Done(_)) => String::new(),
            Some(answer::Result::Refused(refused)) => refused.reason.clone(),
            Some(answer::Result::Settings(_)) | None => "it gave no answer".to_owned(),
        };
        let mut ours = false;
        for asked in &mut self.asked {
            if let Some(agent_id) = asked.waiting.remove(&answer.command_id) {
                asked.report.agents.push(v1::StoppedAgent { agent_id, trouble: trouble.clone() });
                ours = true;
            }
        }
        self.reply();
        ours
    }

    /// An agent is gone; its guard or its lease heals.
    pub(crate) fn lost(&mut self, agent: &AgentId) {
        for asked in &mut self.asked {
            let gone = asked.waiting.values().any(|waiting| waiting == agent);
            asked.waiting.retain(|_, waiting| waiting != agent);
            if gone {
                let trouble = "it was lost before it answered; its guard heals".to_owned();
                let agent_id = agent.clone();
                asked.report.agents.push(v1::StoppedAgent { agent_id, trouble });
            }
        }
        self.reply();
    }

    /// Whether somebody is not answered yet.
    pub(crate) fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    fn reply(&mut self) {
        let (answered, waiting): (Vec<_>, Vec<_>) =
            self.asked.drain(..).partition(|asked| asked.waiting.is_empty());
        self.asked = waiting;
        for Asked { report, reply, .. } in answered {
            // Whoever asked may not wait any more.
            let _ = reply.send(report);
        }
    }
}

/// The switch in words.
pub(crate) fn sentence(switch: &v1::KillSwitch) -> String {
    let v1::KillSwitch { since, by, reason } = switch.clone();
    Stopped { since, by, reason }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_answered_when_the_last_agent_has_answered_or_is_gone() {
        let mut stopping = Stopping::default();
        let (reply, mut report) = oneshot::channel();
        let waiting = [(7, "a"), (8, "b"), (9, "c")].map(|(id, agent)| (id, agent.to_owned()));
        stopping.ask("run", BTreeMap::from(waiting), reply);
        let switch = v1::KillSwitch::default();
        assert!(stopping.is_news(&switch) && !stopping.is_news(&switch));
        assert_eq!(stopping.switch(), Some(switch));
        let answer = |command_id, result| v1::Answer { command_id, result: Some(result) };
        let done = answer::Result::Done(v1::Done {});
        assert!(!stopping.answered(&answer(1, done.clone())), "another command");
        assert!(stopping.answered(&answer(7, done)));
        let refused = v1::Refused { reason: "not healed: x".to_owned() };
        assert!(stopping.answered(&answer(8, answer::Result::Refused(refused))));
        assert!(stopping.waits() && report.try_recv().is_err(), "c is still to come");
        stopping.lost(&"c".to_owned());
        let report = report.try_recv().unwrap();
        let trouble: Vec<&str> = report.agents.iter().map(|a| a.trouble.as_str()).collect();
        assert_eq!(trouble[..2], ["", "not healed: x"]);
        assert!(trouble[2].contains("lost"), "{trouble:?}");
    }

    #[test]
    fn a_run_without_agents_answers_at_once() {
        let (reply, mut report) = oneshot::channel();
        Stopping::default().ask("run", BTreeMap::new(), reply);
        assert_eq!(report.try_recv().unwrap().run, "run");
    }
}
