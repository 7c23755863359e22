//! The kill switch: an agent heals and ends its case, tells, and takes nothing on until it is released.

use std::time::Duration;

use ringbreaker_agent::stop::{Stopped, Switch};
use ringbreaker_proto::v1::{self, answer, command::Action, fault::Kind};
use ringbreaker_scenarios::event::{EndReason, HealReason, What};

use super::{
    assert_nothing_is_left, begin,
    controller::{Rig, Session},
    count, done, has_ended, of_rank_1, prepare,
};

fn by_ada() -> Stopped {
    Stopped { since: "noon".into(), by: "ada".into(), reason: "smoke".into() }
}

/// A case whose rank 1 is stopped for a minute.
async fn broken(rig: &mut Rig) -> Session {
    let mut session = rig.welcomed().await;
    let fault = of_rank_1(Kind::Stop(v1::Stop {}), Duration::from_secs(60));
    let prepare = prepare(rig, vec![fault]);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    session
}

async fn must_have_healed(rig: &mut Rig, session: &mut Session) {
    rig.until(session, "end", |events| has_ended(events, EndReason::Interrupted)).await;
    let healed = What::FaultHealed { fault: 0, because: HealReason::Interrupted };
    assert_eq!(count(&rig.stored, |what| *what == healed), 1, "{:#?}", rig.stored);
}

/// The agent takes a case on again, and leaves.
async fn must_be_released(rig: &mut Rig, mut session: Session) {
    while rig.stopped.is_some() {
        rig.beat(&mut session).await;
    }
    let again = prepare(rig, Vec::new());
    assert_eq!(rig.ask(&mut session, 11, again).await, done());
    assert_eq!(rig.ask(&mut session, 12, Action::Leave(v1::Leave {})).await, done());
    rig.drain(session).await;
    assert_eq!(rig.agent.end().await.code(), Some(0));
    assert_nothing_is_left(rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_engaged_beside_the_controller_ends_the_case_and_is_told_first() {
    let mut rig = Rig::start().await;
    let mut session = broken(&mut rig).await;
    let switch = Switch::of(&rig.state());
    switch.engage(&by_ada()).unwrap();
    must_have_healed(&mut rig, &mut session).await;
    assert_eq!(rig.stopped.as_ref().map(|stopped| stopped.by.as_str()), Some("ada"));

    let again = prepare(&rig, Vec::new());
    let refusal = rig.ask(&mut session, 10, again).await;
    let answer::Result::Refused(refused) = &refusal else { panic!("{refusal:?}") };
    assert!(refused.reason.contains("by ada (smoke)"), "{refused:?}");
    assert!(switch.release().unwrap());
    must_be_released(&mut rig, session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_says_stop_is_answered_when_all_is_healed_and_the_switch_stays() {
    let mut rig = Rig::start().await;
    let mut session = broken(&mut rig).await;
    let stop = v1::KillSwitch { since: "noon".into(), by: "ada".into(), reason: "smoke".into() };
    assert_eq!(rig.ask(&mut session, 3, Action::StopInjections(stop)).await, done());
    // Observations that came before an answer are sent before it.
    assert!(has_ended(&rig.stored, EndReason::Interrupted), "{:#?}", rig.stored);
    must_have_healed(&mut rig, &mut session).await;
    let switch = Switch::of(&rig.state());
    assert_eq!(switch.look(), Some(by_ada()));
    assert!(switch.release().unwrap());
    must_be_released(&mut rig, session).await;
}
