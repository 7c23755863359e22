//! The scenario of 1,000 cases that planning and documents are measured with: five columns, five
//! timeouts, four modes of error handling, ten repetitions, four ranks.

use ringbreaker_scenarios::{
    case::CasePlan,
    plan::{self, Options},
    scenario::Scenario,
};

use crate::{error::Error, run::config};

const TIMEOUTS: &[&str] = &["1s", "2s", "5s", "10s", "15s"];
const MODES: &[&str] = &["teardown", "cleanup-only", "skip-cleanup", "none"];
const REPETITIONS: u32 = 10;

/// The whole matrix, as a file would have it.
pub(super) fn scenario() -> String {
    with(TIMEOUTS, MODES)
}

/// One timeout and one mode of it: every column, in a few seconds.
pub(super) fn sample() -> String {
    with(&["1s"], &["teardown"])
}

fn with(timeouts: &[&str], modes: &[&str]) -> String {
    format!(
        "summary = \"a thousand cases\"\nbackend = \"host\"\nclean = true\n\
         [cluster]\nnodes = 2\nranks_per_node = 2\n\
         [workload]\ncollective = \"all_reduce\"\nbytes = \"64 KiB\"\niterations = 400\ninterval = \"1ms\"\n\
         [settings]\nNCCL_TIMEOUT = {timeouts:?}\nerror_handling = {modes:?}\n\
         [[fault]]\nname = \"kill\"\nwhen = {{ iteration = 200 }}\ntarget = {{ rank = 1 }}\ninject.kill = {{}}\n\
         [[fault]]\nname = \"stop\"\nwhen = {{ iteration = 200 }}\ntarget = {{ rank = 1 }}\ninject.stop = {{}}\n\
         [[fault]]\nname = \"pause\"\nwhen = {{ iteration = 200 }}\ntarget = {{ rank = 1 }}\nlasts = \"100ms\"\ninject.stop = {{}}\n\
         [[fault]]\nname = \"terminate\"\nwhen = {{ iteration = 200 }}\ntarget = {{ rank = 1 }}\ninject.kill = {{ signal = \"TERM\" }}\n"
    )
}

/// Its cases.
pub(super) fn plan(text: &str) -> Result<Vec<CasePlan>, Error> {
    let scenario =
        Scenario::parse("bench.toml", text).map_err(|problems| config::invalid(&problems))?;
    let options = Options { repetitions: Some(REPETITIONS), ..Options::default() };
    plan::plan(&scenario, &options).map_err(|problems| config::invalid(&problems))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_scenario_has_a_thousand_cases_and_the_sample_each_of_its_columns() {
        let columns = |cases: &[CasePlan]| -> BTreeSet<String> {
            cases.iter().map(|case| case.column.clone()).collect()
        };
        let cases = plan(&scenario()).unwrap();
        assert_eq!(cases.len(), 1_000);
        assert_eq!(columns(&cases), columns(&plan(&sample()).unwrap()));
        assert_eq!(columns(&cases).len(), 5);
    }
}
