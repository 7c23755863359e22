//! Computed times, and what is the wrong way round.

use proptest::prelude::*;

use super::*;
use crate::settings::Version;

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn stack(framework: Framework) -> Stack {
    Stack { framework, torchrun: false, versions: Versions::default() }
}

fn of(framework: Framework, pairs: &[(&str, &str)]) -> Ladder {
    ladder(&settings(pairs), stack(framework))
}

fn rung<'a>(ladder: &'a Ladder, situation: &str, name: &str) -> &'a Rung {
    let situation = ladder.situations.iter().find(|s| s.name == situation);
    let rungs = situation.map_or(&[][..], |s| &s.rungs);
    rungs.iter().find(|r| r.name.contains(name)).unwrap_or_else(|| panic!("no {name}: {rungs:#?}"))
}

#[test]
fn times_are_computed_as_the_sources_say() {
    use Framework::{Gloo, Nccl2, ProcessGroupNccl, Rank};
    let infiniband = "silent-over-infiniband";
    for (framework, pairs, situation, name, when) in [
        (Rank, &[][..], "connect-refused", "connect retries", "59.5 s to 60.5 s"),
        (
            Rank,
            &[("NCCL_SOCKET_RETRY_CNT", "3"), ("NCCL_SOCKET_RETRY_SLEEP_MSEC", "100")],
            "connect-refused",
            "connect retries",
            "0.6 s to 1.6 s",
        ),
        (
            Rank,
            &[("NCCL_TIMEOUT", "30"), ("first_op_timeout", "90s")],
            "connect-refused-in-first-operation",
            "deadline of the first operation",
            "90 s to 90.1 s",
        ),
        (Rank, &[], "connect-silent", "connect retries", "4644 s or later"),
        (Rank, &[], "missing-rank", "bootstrap", "never"),
        (Rank, &[("NCCL_TIMEOUT", "30")], "missing-rank", "deadline of init", "30 s to 30.1 s"),
        (Rank, &[], "silent-over-sockets", "kernel", "925 s or later"),
        (Rank, &[("tcp_retries2", "8")], "silent-over-sockets", "kernel", "102 s or later"),
        (Rank, &[], infiniband, "retries", "30.1 s or later"),
        (Rank, &[("NCCL_IB_TIMEOUT", "22")], infiniband, "retries", "120 s or later"),
        (Rank, &[("NCCL_IB_TIMEOUT", "600")], infiniband, "retries", "never"),
        (Rank, &[("NCCL_IB_TIMEOUT", "0")], infiniband, "retries", "never"),
        (Rank, &[("NCCL_RAS_TIMEOUT_FACTOR", "3")], infiniband, "RAS", "180 s or later"),
        (Rank, &[("dump_wait", "4s")], "noticed", "watchdog", "4 s"),
        (ProcessGroupNccl, &[], "silent-over-sockets", "group's timeout", "600 s"),
        (ProcessGroupNccl, &[], "noticed", "watchdog's action", "60 s to 68 s"),
        (ProcessGroupNccl, &[], "noticed", "heartbeat monitor", "480 s to 511 s"),
        (ProcessGroupNccl, &[], "watchdog-hangs", "monitor", "480 s to 1470 s"),
        (Nccl2, &[], "noticed", "nccl2's action", "15 s to 75 s"),
        (Gloo, &[], "silent-over-sockets", "group's timeout", "1800 s"),
        (Gloo, &[("NCCL_TIMEOUT", "9")], "silent-over-sockets", "group's timeout", "9 s"),
    ] {
        let ladder = of(framework, pairs);
        assert_eq!(rung(&ladder, situation, name).when(), when, "{framework:?} {pairs:?} {name}");
    }
}

#[test]
fn defaults_follow_the_version() {
    let at = |nccl: &str, torch: &str| Stack {
        versions: Versions { nccl: Version::first(nccl), torch: Version::first(torch) },
        ..stack(Framework::ProcessGroupNccl)
    };
    for (nccl, torch, situation, name, when) in [
        ("2.18.5", "2.11", "silent-over-infiniband", "retries", "7.5 s or later"),
        ("2.18.5", "2.11", "connect-refused", "retries", "20 s to 21 s"),
        ("2.28.9", "2.1", "silent-over-sockets", "group's timeout", "1800 s"),
        ("2.28.9", "2.4", "noticed", "watchdog's action", "0 s to 8 s"),
        ("2.28.9", "2.4", "noticed", "monitor", "never"),
    ] {
        let ladder = ladder(&BTreeMap::new(), at(nccl, torch));
        assert_eq!(rung(&ladder, situation, name).when(), when, "{nccl} {torch} {name}");
    }
}

#[test]
fn a_timer_that_can_never_fire_is_named_with_the_one_in_its_way() {
    let wait = ("TORCH_NCCL_BLOCKING_WAIT", "1");
    let heartbeat = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
    for (framework, pairs, shadow, message) in [
        (
            Framework::Rank,
            &[("op_timeout", "10s"), ("NCCL_IB_TIMEOUT", "22")][..],
            Shadow::Never,
            "InfiniBand's retries of NCCL_IB_TIMEOUT=22 (120 s or later) can never fire: the rank's \
             deadline of op_timeout=10s (10 s to 10.1 s) comes first",
        ),
        (
            Framework::Rank,
            &[("init_timeout", "5s"), ("NCCL_SOCKET_RETRY_CNT", "20")],
            Shadow::Never,
            "connect retries of NCCL_SOCKET_RETRY_CNT=20",
        ),
        (
            Framework::Rank,
            &[("NCCL_IB_TIMEOUT", "600")],
            Shadow::Off,
            "InfiniBand's retries of NCCL_IB_TIMEOUT=600 never fires: beyond the hardware's fields",
        ),
        (
            Framework::ProcessGroupNccl,
            &[(heartbeat, "600")],
            Shadow::Never,
            "the heartbeat monitor of TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600 (600 s to 631 s) can never",
        ),
        (
            Framework::ProcessGroupNccl,
            &[(heartbeat, "10"), ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "15000")],
            Shadow::Never,
            "the watchdog's action of TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=15000 (60 s to 68 s) can \
             never fire: the heartbeat monitor",
        ),
        (
            Framework::ProcessGroupNccl,
            &[(heartbeat, "60")],
            Shadow::Race,
            "may come in either order",
        ),
        (
            Framework::ProcessGroupNccl,
            &[wait, (heartbeat, "60")],
            Shadow::Off,
            "watchdog and monitor of TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=60 never fires",
        ),
        (
            Framework::ProcessGroupNccl,
            &[("TORCH_NCCL_ENABLE_MONITORING", "0"), (heartbeat, "60")],
            Shadow::Off,
            "TORCH_NCCL_ENABLE_MONITORING=0: it waits and then only logs",
        ),
    ] {
        let ladder = of(framework, pairs);
        let found = ladder.inversions.iter().any(|inversion| {
            inversion.shadow == shadow && inversion.set && inversion.message.contains(message)
        });
        assert!(found, "{pairs:?}: {:#?}", ladder.inversions);
    }
}

#[test]
fn a_setting_is_in_vain_only_where_none_of_its_timers_can_fire() {
    let vain = |pairs: &[(&str, &str)]| -> Vec<&'static str> {
        let ladder = of(Framework::Rank, pairs);
        ladder.inversions.iter().filter(|i| i.in_vain).map(|i| i.situation).collect()
    };
    let retries = ("NCCL_SOCKET_RETRY_CNT", "34");
    // Without effect in init, and the end of the wait in the first operation.
    assert!(vain(&[retries, ("init_timeout", "5s")]).is_empty());
    assert_eq!(vain(&[retries, ("NCCL_TIMEOUT", "5s")]).len(), 3);
    // Later than connect retries, and the only end that a silent peer has.
    assert!(vain(&[("NCCL_TIMEOUT", "100s")]).is_empty());
}

#[test]
fn an_older_name_decides_too_and_torchrun_changes_the_mode() {
    let old = of(Framework::ProcessGroupNccl, &[("NCCL_BLOCKING_WAIT", "1")]);
    let decider = &rung(&old, "noticed", "waiting call").deciders[0];
    assert_eq!((decider.name.as_str(), decider.set), ("NCCL_BLOCKING_WAIT", true));
    let under = |pairs: &[(&str, &str)]| {
        let stack = Stack { torchrun: true, ..stack(Framework::ProcessGroupNccl) };
        let ladder = ladder(&settings(pairs), stack);
        rung(&ladder, "noticed", "watchdog's action").does.clone()
    };
    assert_eq!(under(&[]), "aborts the communicators, then SIGABRT");
    assert_eq!(under(&[("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")]), "SIGABRT without an abort");
    // An abort may hang, so that the monitor behind it is no timer that can never fire.
    let lost =
        ladder(&BTreeMap::new(), Stack { torchrun: true, ..stack(Framework::ProcessGroupNccl) });
    assert!(lost.inversions.iter().all(|i| i.rung != "the heartbeat monitor"), "{lost:#?}");
    // torchrun sets the new name, which wins over the old one.
    assert_eq!(
        under(&[("NCCL_ASYNC_ERROR_HANDLING", "3")]),
        "aborts the communicators, then SIGABRT"
    );
}

#[test]
fn the_whole_ladder_of_defaults_stays_as_it_is() {
    let shown = |framework, torchrun| {
        let ladder = ladder(&BTreeMap::new(), Stack { torchrun, ..stack(framework) });
        let situation = |s: &Situation| {
            let rungs = s.rungs.iter().map(|r| format!("  {:<24} {}", r.when(), r.name));
            std::iter::once(s.title.to_owned()).chain(rungs).collect::<Vec<_>>().join("\n")
        };
        let inversions = ladder.inversions.iter().map(|i| format!("! {}", i.message));
        let situations = ladder.situations.iter().map(situation);
        situations.chain(inversions).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("rank", shown(Framework::Rank, false));
    insta::assert_snapshot!("torch", shown(Framework::ProcessGroupNccl, true));
    insta::assert_snapshot!("nccl2", shown(Framework::Nccl2, true));
    insta::assert_snapshot!("gloo", shown(Framework::Gloo, false));
}

proptest! {
    #[test]
    fn only_timers_that_come_after_the_certain_end_are_called_impossible(
        op in 1u64..2000, exponent in 0i64..40, retries in 0i64..9, count in 0u64..60,
        heartbeat in 1u64..900, dump in 0u64..200_000, framework in 0usize..4, torchrun: bool,
    ) {
        use Framework::{Gloo, Nccl2, ProcessGroupNccl, Rank};
        let framework = [Rank, ProcessGroupNccl, Nccl2, Gloo][framework];
        let settings: BTreeMap<String, String> = [
            ("NCCL_TIMEOUT", format!("{op}s")),
            ("NCCL_IB_TIMEOUT", exponent.to_string()),
            ("NCCL_IB_RETRY_CNT", retries.to_string()),
            ("NCCL_SOCKET_RETRY_CNT", count.to_string()),
            ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", heartbeat.to_string()),
            ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", dump.to_string()),
        ].into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let ladder = ladder(&settings, Stack { torchrun, ..stack(framework) });
        for situation in &ladder.situations {
            let moments: Vec<_> = situation.rungs.iter().filter_map(|r| r.earliest).collect();
            prop_assert!(moments.is_sorted());
            for rung in &situation.rungs {
                prop_assert!(rung.latest.is_none_or(|latest| rung.earliest.is_none_or(|e| e <= latest)));
            }
        }
        for inversion in ladder.inversions.iter().filter(|i| i.shadow == Shadow::Never) {
            let situation = ladder.situations.iter().find(|s| s.name == inversion.situation).unwrap();
            let named = |name: Option<&str>| situation.rungs.iter().find(|r| Some(r.name) == name);
            let (late, first) = (named(Some(inversion.rung)).unwrap(), named(inversion.behind).unwrap());
            prop_assert!(first.ends && late.earliest >= first.latest);
        }
    }

    #[test]
    fn no_value_is_too_strange_for_a_ladder(text in ".{0,20}", number: i64, framework in 0usize..4) {
        use Framework::{Gloo, Nccl2, ProcessGroupNccl, Rank};
        let framework = [Rank, ProcessGroupNccl, Nccl2, Gloo][framework];
        for value in [text, number.to_string()] {
            let names = crate::settings::all().iter().map(|doc| doc.name.clone());
            let settings = names.map(|name| (name, value.clone())).collect();
            let ladder = ladder(&settings, stack(framework));
            prop_assert!(!ladder.situations.is_empty());
        }
    }
}
