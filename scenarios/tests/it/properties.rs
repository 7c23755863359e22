//! What holds for every file and every plan.

use proptest::prelude::*;
use ringbreaker_scenarios::{
    case::CasePlan,
    fault::ActsOn,
    library,
    plan::{self, Options},
    scenario::Scenario,
};

/// A shipped file with a piece cut out and something else put in its place.
fn mutated() -> impl Strategy<Value = String> {
    let junk = prop_oneof![
        Just(String::new()),
        "[\\[\\]{}=\"',.#0-9a-z\n ]{1,12}",
        Just("\u{0}".to_owned()),
        Just("é\u{1F4A5}".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("[[fault]]\n".to_owned()),
        Just("inject.kill = {}\n".to_owned()),
    ];
    let file = prop::sample::select(library::all());
    (file, any::<prop::sample::Index>(), 0usize..40, junk).prop_map(|(file, at, cut, junk)| {
        let chars: Vec<char> = file.text.chars().collect();
        let at = at.index(chars.len());
        let end = (at + cut).min(chars.len());
        chars[..at].iter().collect::<String>() + &junk + &chars[end..].iter().collect::<String>()
    })
}

/// A right file with any cluster, sweep and faults.
fn right() -> impl Strategy<Value = (String, usize)> {
    let fault = (0usize..7, prop::sample::select(vec!["one", "minority", "all"]), any::<bool>());
    let sweeps = prop::collection::vec(1usize..5, 0..4);
    (2u32..9, 1u32..5, 1u32..4, sweeps, prop::collection::vec(fault, 0..6), any::<bool>())
        .prop_map(|(nodes, ranks, repetitions, sweeps, faults, clean)| {
            let mut text = format!(
                "summary = \"drawn\"\nclean = {clean}\nrepetitions = {repetitions}\n\
                 [cluster]\nnodes = {nodes}\nranks_per_node = {ranks}\n\
                 [workload]\ncollective = \"all_reduce\"\nbytes = \"1 MiB\"\niterations = 10\n[settings]\n"
            );
            for (number, values) in sweeps.iter().enumerate() {
                let list: Vec<String> = (0..*values).map(|v| v.to_string()).collect();
                text += &format!("SETTING_{number} = [{}]\n", list.join(", "));
            }
            for (kind, target, lasts) in &faults {
                let kind = [
                    "kill = {}",
                    "stop = {}",
                    "exhaust_ports = {}",
                    "fill_shm = { leave = \"1 MiB\" }",
                    "delay = { by = \"1ms\" }",
                    "partition = {}",
                    "limit_memory = { leave = \"0 B\" }",
                ][*kind];
                text += &format!("[[fault]]\nwhen = {{ iteration = 3 }}\ntarget = \"{target}\"\ninject.{kind}\n");
                if *lasts && !kind.starts_with("kill") {
                    text += "lasts = \"2s\"\n";
                }
            }
            let columns = (faults.len() + usize::from(clean)).max(1);
            (text, sweeps.iter().product::<usize>() * columns * repetitions as usize)
        })
}

fn targets_are_in_range(case: &CasePlan) {
    for fault in &case.faults {
        let target = &fault.target;
        assert!(target.ranks.iter().all(|&rank| rank < case.world()));
        assert!(target.nodes.iter().all(|&node| node < case.cluster.nodes));
        assert!(target.directions.iter().all(|&(from, to)| {
            from != to && from < case.cluster.nodes && to < case.cluster.nodes
        }));
        let (ranks, nodes, links) =
            (target.ranks.len(), target.nodes.len(), target.directions.len());
        match fault.kind.acts_on() {
            ActsOn::Ranks => assert!(ranks > 0 && nodes == 0 && links == 0, "{target:?}"),
            ActsOn::Nodes => assert!(ranks == 0 && nodes > 0 && links == 0, "{target:?}"),
            ActsOn::Links => assert!(ranks == 0 && nodes == 0 && links > 0, "{target:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_file_makes_the_reader_panic_and_every_refusal_says_why(text in mutated()) {
        match Scenario::parse("mutated.toml", &text) {
            Ok(scenario) => {
                let cases = plan::plan(&scenario, &Options::default()).unwrap();
                prop_assert!(!cases.is_empty());
                cases.iter().for_each(targets_are_in_range);
            }
            Err(problems) => {
                prop_assert!(problems.len() > 0);
                for problem in &problems {
                    prop_assert!(!problem.message.is_empty() && !problem.right.is_empty());
                    let place = problem.place.as_ref().unwrap();
                    prop_assert_eq!(&text[place.span.clone()], &place.offending);
                }
                prop_assert!(problems.render(true).contains("error"));
            }
        }
    }

    #[test]
    fn every_plan_is_the_whole_matrix_and_hits_what_exists((text, size) in right(), seed: u64) {
        let scenario = Scenario::parse("drawn.toml", &text).unwrap_or_else(|p| panic!("{p}\n{text}"));
        let options = Options { seed, ..Options::default() };
        let cases = plan::plan(&scenario, &options).unwrap();
        prop_assert_eq!(cases.len(), size);
        for case in &cases {
            targets_are_in_range(case);
            prop_assert!(case.ranks.len() == case.world() as usize);
            for fault in &case.faults {
                prop_assert!(fault.lease > fault.lasts.unwrap_or_default(), "every fault has a lease");
            }
        }
        prop_assert_eq!(&cases, &plan::plan(&scenario, &options).unwrap());
        prop_assert!(plan::describe(&cases).contains("fault schedule"));
    }
}
