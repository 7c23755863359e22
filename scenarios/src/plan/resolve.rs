//! From settings as typed to what a rank's watchdog, its environment and its node get.

use super::Values;
use crate::{
    case::{FaultPlan, NodeLimits, RankPlan, Trigger, WatchdogPlan},
    settings::own,
    units::Nanos,
    words::ErrorHandling,
};

/// What one rank gets: the settings of all, and its own over them.
pub(super) fn rank(settings: &Values, of_rank: Option<&Values>) -> RankPlan {
    let mut all = settings.clone();
    all.extend(of_rank.cloned().unwrap_or_default());
    let watchdog = watchdog(&all);
    all.retain(|name, _| !own::is_own(name));
    RankPlan { env: all, watchdog }
}

fn watchdog(settings: &Values) -> WatchdogPlan {
    let default = WatchdogPlan::default();
    // Like a training script that hands NCCL_TIMEOUT on as the timeout of its process group. What
    // is said in ringbreaker's own words is more exact and wins.
    let script = settings.get("NCCL_TIMEOUT").and_then(|text| own::script_timeout(text));
    let deadline = |name: &str, otherwise: Option<Nanos>| match settings.get(name) {
        Some(text) => own::deadline(text).unwrap_or(otherwise),
        None => otherwise,
    };
    let duration = |name: &str, otherwise: Nanos| {
        settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let mode = settings.get("error_handling").and_then(|text| text.parse::<ErrorHandling>().ok());
    WatchdogPlan {
        init_timeout: deadline("init_timeout", script),
        first_op_timeout: deadline("first_op_timeout", None),
        op_timeout: deadline("op_timeout", script),
        error_handling: mode.unwrap_or(default.error_handling),
        blocking_wait: own::flag(settings, "blocking_wait"),
        poll: duration("watchdog_poll", default.poll),
        dump_wait: duration("dump_wait", default.dump_wait),
    }
}

/// What the kernel allows each node and each rank on it.
pub(super) fn limits(settings: &Values) -> NodeLimits {
    let get = |name: &str| settings.get(name).cloned();
    NodeLimits {
        shm_size: get("shm_size").and_then(|text| text.parse().ok()),
        memory_limit: get("memory_limit").and_then(|text| text.parse().ok()),
        nofile: get("nofile").and_then(|text| text.parse().ok()),
        sysctls: settings
            .iter()
            .filter(|(name, _)| own::is_sysctl(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    }
}

/// The latest moment, from the beginning of an operation or of init, at which the watchdog acts.
pub(super) fn longest_deadline(watchdog: &WatchdogPlan) -> Nanos {
    let WatchdogPlan { init_timeout, first_op_timeout, op_timeout, poll, dump_wait, .. } = watchdog;
    match [init_timeout, first_op_timeout, op_timeout].into_iter().flatten().max() {
        Some(longest) => *longest + *poll + *dump_wait,
        None => *dump_wait,
    }
}

/// From steady state until the fault is over, as far as the plan knows.
pub(super) fn span_of_fault(fault: &FaultPlan) -> Nanos {
    let begins = match fault.when {
        Trigger::After(time) => time,
        Trigger::Iteration(_) | Trigger::Phase(_) => Nanos::ZERO,
    };
    begins + fault.lasts.unwrap_or(Nanos::ZERO)
}
