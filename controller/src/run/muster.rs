//! Before the first case: waits for agents, and asks one of them which settings its backend reads.

use std::time::Duration;

use ringbreaker_proto::v1::{self, answer, command};
use ringbreaker_scenarios::{case::CasePlan, units::Nanos, words::Backend};

use super::{
    crew::{Crew, Heard},
    lane::AgentId,
};
use crate::{
    clock,
    cluster::Cluster,
    error::{Error, Expected},
};

/// How long a child of ours may take to register: it looks for GPUs and libraries first.
const REGISTER: Duration = Duration::from_secs(60);
/// How long an agent may take to look a dozen names up in a library.
const EXAMINE: Duration = Duration::from_secs(30);

/// Waits until so many agents are there. Children that end are started again, some times.
pub(crate) async fn gather(crew: &mut Crew, wanted: usize) -> Result<Vec<AgentId>, Error> {
    let ours = matches!(crew.cluster, Cluster::Local(_));
    let deadline = ours.then(|| clock::now() + Nanos::from(REGISTER));
    loop {
        let present: Vec<AgentId> = crew.fleet.present().cloned().collect();
        if present.len() >= wanted {
            return Ok(present);
        }
        if deadline.is_some_and(|at| at <= clock::now()) {
            let waited = Nanos::from(REGISTER);
            return Err(start_failed(crew, 0, &format!("no word from it within {waited}")));
        }
        match crew.next(deadline).await {
            Heard::Interrupted => return Err(Expected::InterruptedEarly.into()),
            Heard::Stopped { stopped } => return Err(Expected::Stopped { stopped }.into()),
            Heard::ChildEnded { lane, how, .. } => start_again(crew, lane, &how)?,
            Heard::Observed { agent, .. } => crew.fleet.acknowledge(&agent),
            _ => {}
        }
    }
}

fn start_again(crew: &mut Crew, lane: u32, how: &str) -> Result<(), Error> {
    match crew.start(lane)? {
        true => Ok(()),
        false => Err(start_failed(crew, lane, &format!("it ended: {how}"))),
    }
}

/// The error of an agent of ours that does not come up, with its own last words.
pub(crate) fn start_failed(crew: &Crew, lane: u32, reason: &str) -> Error {
    let Cluster::Local(local) = &crew.cluster else {
        return Expected::NoAgents { reason: reason.to_owned() }.into();
    };
    let words = local.last_words(lane).map(|words| format!("; it said: {words}"));
    let reason = format!("{reason}{}", words.unwrap_or_default());
    Expected::AgentStart { lane, reason, log: local.log(lane) }.into()
}

/// Which settings of these cases nothing in the backend reads, as sentences.
pub(crate) async fn flag_settings(
    crew: &mut Crew,
    agent: &AgentId,
    backend: Backend,
    nccl: &str,
    plans: &[CasePlan],
) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = plans
        .iter()
        .flat_map(|plan| plan.settings.keys().chain(plan.ranks.iter().flat_map(|r| r.env.keys())))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    let examine = v1::ExamineSettings {
        backend: backend.word().to_owned(),
        names,
        nccl_path: nccl.to_owned(),
    };
    let asked = crew.command(agent, command::Action::ExamineSettings(examine));
    let deadline = clock::now() + Nanos::from(EXAMINE);
    while clock::now() < deadline {
        match crew.next(Some(deadline)).await {
            Heard::Interrupted => return Err(Expected::InterruptedEarly.into()),
            Heard::Stopped { stopped } => return Err(Expected::Stopped { stopped }.into()),
            Heard::Observed { agent, .. } => crew.fleet.acknowledge(&agent),
            Heard::Answered { command, result, .. } if command == asked => {
                return Ok(sentences(result));
            }
            Heard::ChildEnded { lane, how, .. } => {
                return Err(start_failed(crew, lane, &format!("it ended: {how}")));
            }
            _ => {}
        }
    }
    let waited = Nanos::from(EXAMINE);
    Ok(vec![format!("settings were not examined: the agent did not answer within {waited}")])
}

fn sentences(result: answer::Result) -> Vec<String> {
    match result {
        answer::Result::Settings(examined) => examined
            .findings
            .into_iter()
            .filter(|finding| !finding.read)
            .map(|finding| format!("{} has no effect: {}", finding.name, finding.reason))
            .collect(),
        answer::Result::Refused(refused) => {
            vec![format!("settings were not examined: {}", refused.reason)]
        }
        answer::Result::Done(_) => vec!["settings were not examined: the agent gave none".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_nothing_reads_are_flagged_and_a_refusal_is_told() {
        let finding = |name: &str, read| v1::SettingFinding {
            name: name.into(),
            read,
            reason: "read by nothing".into(),
        };
        let findings = vec![finding("A", true), finding("NCCL_SOCKET_TIMEOUT", false)];
        let examined = answer::Result::Settings(v1::SettingsExamined { findings });
        assert_eq!(sentences(examined), ["NCCL_SOCKET_TIMEOUT has no effect: read by nothing"]);
        let refused = answer::Result::Refused(v1::Refused { reason: "no libnccl".into() });
        assert_eq!(sentences(refused), ["settings were not examined: no libnccl"]);
    }
}
