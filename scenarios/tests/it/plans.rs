//! From files to plans: what comes out, that it comes out again, and what holds in every plan.

use std::collections::{BTreeMap, BTreeSet};

use ringbreaker_scenarios::{
    case::CasePlan,
    plan::{self, MAX_CASES, Options},
    scenario::Scenario,
    units::Nanos,
    words::{Backend, ErrorHandling, Outcome},
};

const EVERYTHING: &str = include_str!("valid/everything.toml");

fn everything() -> Scenario {
    Scenario::parse("everything.toml", EVERYTHING).unwrap_or_else(|problems| panic!("{problems}"))
}

fn planned(options: &Options) -> Vec<CasePlan> {
    plan::plan(&everything(), options).unwrap()
}

fn seeded(seed: u64) -> Options {
    Options { seed, ..Options::default() }
}

#[test]
fn a_file_that_says_everything_becomes_this_plan() {
    let cases = planned(&seeded(1));
    insta::assert_snapshot!("everything_described", plan::describe(&cases));
    let case = cases.iter().find(|case| case.column == "island").unwrap();
    insta::assert_json_snapshot!("everything_first_island_case", case);
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_seed_another() {
    assert_eq!(planned(&seeded(7)), planned(&seeded(7)));
    let targets: BTreeSet<String> = (0..20)
        .map(|seed| {
            planned(&seeded(seed))
                .iter()
                .map(|case| case.faults.first().map_or_else(String::new, |f| f.label.clone()))
                .collect()
        })
        .collect();
    assert!(targets.len() > 5, "words are drawn by seed: {targets:?}");
}

#[test]
fn an_added_fault_and_setting_leave_the_draws_of_others_alone() {
    let more = EVERYTHING
        .replace("[settings]", "[[fault]]\nname = \"new\"\nwhen = { iteration = 1 }\ntarget = \"one\"\ninject.stop = {}\n\n[settings]\nNCCL_NET = \"Socket\"");
    let scenario = Scenario::parse("everything.toml", &more).unwrap_or_else(|p| panic!("{p}"));
    for seed in 0..10 {
        let before = planned(&seeded(seed));
        let after = plan::plan(&scenario, &seeded(seed)).unwrap();
        for case in before {
            let same = after
                .iter()
                .find(|other| {
                    (&other.column, &other.row, other.repetition)
                        == (&case.column, &case.row, case.repetition)
                })
                .unwrap();
            assert_eq!((&case.faults, case.seed), (&same.faults, same.seed));
        }
    }
}

#[test]
fn the_matrix_is_the_product_of_columns_rows_and_repetitions() {
    let cases = planned(&seeded(1));
    let columns: Vec<String> = everything().columns();
    assert_eq!(columns, ["clean", "kill", "island", "port", "cut", "one way", "kill-2"]);
    assert_eq!(cases.len(), columns.len() * 4 * 2);
    let cells: BTreeSet<_> =
        cases.iter().map(|c| (c.repetition, c.column.clone(), c.row.clone())).collect();
    assert_eq!(cells.len(), cases.len(), "no cell comes twice");
    let half = cases.len() / 2;
    assert!(cases[..half].iter().all(|case| case.repetition == 1), "the whole matrix comes first");
    assert!((0..).zip(&cases).all(|(index, case)| case.index == index));
}

#[test]
fn nccl_timeout_is_the_deadline_of_init_and_operations_as_scripts_make_it() {
    for (timeout, seconds) in [("2", 2), ("4s", 4)] {
        let case = planned(&seeded(1))
            .into_iter()
            .find(|case| case.row.get("NCCL_TIMEOUT").is_some_and(|typed| typed == timeout))
            .unwrap();
        let watchdog = &case.ranks[0].watchdog;
        assert_eq!(watchdog.op_timeout, Some(Nanos::from_secs(seconds)));
        assert_eq!(watchdog.init_timeout, Some(Nanos::from_secs(seconds)));
        assert_eq!(case.ranks[0].env["NCCL_TIMEOUT"], timeout, "as typed");
        assert_eq!(case.ranks[5].watchdog.op_timeout, None, "that rank says never");
        assert_eq!(case.ranks[5].watchdog.error_handling, ErrorHandling::SkipCleanup);
        assert_eq!(case.ranks[5].env["NCCL_DEBUG"], "TRACE");
        assert!(!case.ranks[0].env.contains_key("shm_size"), "no limit goes into the environment");
    }
}

#[test]
fn a_taken_rendezvous_port_is_set_for_the_cases_that_take_it() {
    for case in planned(&seeded(1)) {
        let wanted = (case.column == "port").then_some(plan::DEFAULT_RENDEZVOUS_PORT);
        assert_eq!(case.cluster.rendezvous_port, wanted, "{}", case.column);
    }
}

#[test]
fn expectations_are_taken_over_key_by_key_and_the_last_match_wins() {
    let cases = planned(&seeded(1));
    let cell = |column: &str, timeout: &str, mode: &str| {
        let row = BTreeMap::from(
            [("NCCL_TIMEOUT", timeout), ("error_handling", mode)]
                .map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        cases.iter().find(|c| c.column == column && c.row == row).unwrap().expect.clone()
    };
    let general = cell("one way", "4s", "none");
    assert_eq!(general.outcome, [Outcome::FailedClean]);
    assert_eq!(general.detected_within, Some(Nanos::from_secs(5)));
    assert_eq!(general.no_leftovers, Some(true));

    let killed = cell("kill", "4s", "none");
    assert_eq!(killed.outcome, [Outcome::FailedClean]);
    assert_eq!(killed.detected_within, Some(Nanos::from_secs(1)));
    assert_eq!(killed.ended_within, Some(Nanos::from_secs(10)));
    assert_eq!(killed.no_leftovers, Some(false));

    let hung = cell("island", "2", "none");
    assert_eq!(hung.outcome, [Outcome::Hung], "the exception comes after the fault's own");
    assert_eq!(hung.ended_within, None, "withdrawn");
    assert_eq!(cell("island", "2", "teardown").outcome, [Outcome::Degraded, Outcome::Completed]);

    let clean = cell("clean", "2", "none");
    assert_eq!(clean.outcome, [Outcome::Completed], "no exception names the clean column");
    assert_eq!(clean.detected_within, None);
}

#[test]
fn a_case_outlives_twice_its_longest_deadline_unless_it_is_capped() {
    for case in planned(&seeded(1)) {
        let longest =
            case.ranks.iter().filter_map(|rank| rank.watchdog.first_op_timeout).max().unwrap();
        assert!(case.cap >= longest + longest + Nanos::from_secs(5), "{}", case.cap);
    }
    let capped = EVERYTHING.replace("clean = true", "clean = true\ncase_cap = \"20s\"");
    let scenario = Scenario::parse("everything.toml", &capped).unwrap();
    let cases = plan::plan(&scenario, &seeded(1)).unwrap();
    assert!(cases.iter().all(|case| case.cap == Nanos::from_secs(20)));
}

#[test]
fn a_filter_keeps_numbers_and_draws() {
    let all = planned(&seeded(3));
    let only = |only: &[&str]| {
        planned(&Options { only: only.iter().map(|&f| f.to_owned()).collect(), ..seeded(3) })
    };
    assert_eq!(only(&["9"]), [all[9].clone()]);
    assert_eq!(only(&["3-5", "9"]), [&all[3..=5], &all[9..=9]].concat());
    let kept = only(&["cut error_handling=none"]);
    assert_eq!(kept.len(), 4, "two timeouts, two repetitions");
    assert!(kept.iter().all(|case| all.contains(case) && case.column == "cut"));

    let options = Options { only: vec!["cut".into(), "nothing like it".into()], ..seeded(3) };
    insta::assert_snapshot!(
        "filter_without_match",
        plan::plan(&everything(), &options).unwrap_err()
    );
}

#[test]
fn the_users_backend_wins_over_the_scenarios_and_that_over_the_default() {
    let backend = |text: &str, demanded: Option<Backend>| {
        let scenario = Scenario::parse("x.toml", text).unwrap();
        let options = Options { backend: demanded, default_backend: Backend::Nccl, ..seeded(0) };
        plan::plan(&scenario, &options).unwrap()[0].backend
    };
    let silent = EVERYTHING.replace("backend = \"host\"\n", "");
    assert_eq!(backend(EVERYTHING, None), Backend::Host);
    assert_eq!(backend(EVERYTHING, Some(Backend::Nccl)), Backend::Nccl);
    assert_eq!(backend(&silent, None), Backend::Nccl);
    assert_eq!(backend(&silent, Some(Backend::Host)), Backend::Host);
}

#[test]
fn more_repetitions_than_cases_are_allowed_is_a_refusal() {
    let options = Options { repetitions: Some(10_000), ..seeded(1) };
    let problems = plan::plan(&everything(), &options).unwrap_err();
    assert!(problems.to_string().contains(&format!("at most {MAX_CASES}")), "{problems}");
}

#[test]
fn a_plan_survives_the_way_to_the_agent() {
    for case in planned(&seeded(1)) {
        let text = serde_json::to_string(&case).unwrap();
        assert_eq!(serde_json::from_str::<CasePlan>(&text).unwrap(), case);
    }
}
