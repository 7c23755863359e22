//! How long a run will take: a guess before it, a better one while it goes on. Pure.

use ringbreaker_scenarios::{
    case::{CasePlan, Trigger},
    units::Nanos,
};

/// Building nodes, starting ranks, healing and auditing, on the slower side.
const AROUND: Nanos = Nanos::from_millis(700);

/// About how long a case takes: a faulted one usually ends soon after its longest deadline, a clean
/// one when its work is done.
pub(crate) fn case(plan: &CasePlan) -> Nanos {
    let pause = plan.workload.interval.0.max(1_000_000);
    let operations = u64::from(plan.workload.iterations + plan.workload.warmup);
    let work = Nanos(pause.saturating_mul(operations));
    let deadline = plan.ranks.iter().flat_map(|rank| {
        let w = &rank.watchdog;
        [w.init_timeout, w.first_op_timeout, w.op_timeout]
    });
    let deadline = deadline.flatten().max();
    let until_fault = plan.faults.iter().map(|fault| match fault.when {
        Trigger::After(wait) => wait,
        Trigger::Iteration(iteration) => Nanos(pause.saturating_mul(u64::from(iteration))),
        Trigger::Phase(_) => Nanos::ZERO,
    });
    let spent = match until_fault.max() {
        None => work,
        // Without a deadline nobody may notice before the cap.
        Some(until) => until + deadline.unwrap_or(plan.cap),
    };
    spent.min(plan.cap) + AROUND
}

/// About how long these cases take on so many lanes.
pub(crate) fn run<'a>(plans: impl IntoIterator<Item = &'a CasePlan>, lanes: u32) -> Nanos {
    let (mut sum, mut longest) = (0u64, 0u64);
    for plan in plans {
        let estimate = case(plan).0;
        sum = sum.saturating_add(estimate);
        longest = longest.max(estimate);
    }
    Nanos((sum / u64::from(lanes.max(1))).max(longest))
}

/// Time left: the guess for what is left, corrected by how wrong the guesses were so far.
pub(crate) fn left(elapsed: Nanos, done: Nanos, remaining: Nanos, lanes: u32) -> Nanos {
    let even = remaining.0 as f64 / f64::from(lanes.max(1));
    let expected = done.0 as f64 / f64::from(lanes.max(1));
    let factor = if expected > 0.0 { elapsed.0 as f64 / expected } else { 1.0 };
    Nanos((even * factor.clamp(0.1, 10.0)) as u64)
}

/// `about 40 s`, `about 3 min`: no more digits than a guess deserves.
pub(crate) fn words(time: Nanos) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 10.0 => format!("{} s", s.ceil().max(1.0)),
        s if s < 100.0 => format!("{} s", (s / 5.0).ceil() * 5.0),
        s if s < 5400.0 => format!("{} min", (s / 60.0).ceil()),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::sample;

    #[test]
    fn a_faulted_case_takes_until_its_fault_and_its_deadline_and_never_longer_than_its_cap() {
        let mut plan = sample::plan(0);
        plan.ranks[0].watchdog.op_timeout = Some(Nanos::from_secs(2));
        assert_eq!(case(&plan), Nanos::from_millis(30) + Nanos::from_secs(2) + AROUND);
        plan.ranks[0].watchdog.op_timeout = None;
        assert_eq!(case(&plan), plan.cap + AROUND);
    }

    #[test]
    fn a_clean_case_takes_as_long_as_its_work() {
        let mut plan = sample::plan(0);
        plan.faults.clear();
        assert_eq!(case(&plan), Nanos::from_millis(120) + AROUND);
    }

    #[test]
    fn lanes_share_the_time_but_no_run_is_shorter_than_its_longest_case() {
        let plans: Vec<_> = (0..8).map(sample::plan).collect();
        let one = case(&plans[0]);
        assert_eq!(run(&plans, 4), Nanos(one.0 * 2));
        assert_eq!(run(&plans, 64), one);
    }

    #[test]
    fn time_left_learns_from_what_was_seen() {
        let ten = Nanos::from_secs(10);
        assert_eq!(left(Nanos::ZERO, Nanos::ZERO, ten, 2), Nanos::from_secs(5));
        assert_eq!(left(ten, ten, ten, 2), ten, "twice as slow as guessed");
    }

    #[test]
    fn guesses_are_told_in_round_figures() {
        for (seconds, want) in
            [(1, "1 s"), (7, "7 s"), (42, "45 s"), (150, "3 min"), (7200, "2.0 h")]
        {
            assert_eq!(words(Nanos::from_secs(seconds)), want);
        }
    }
}
