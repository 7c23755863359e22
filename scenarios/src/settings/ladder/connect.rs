//! Timers before the first operation: connecting, and waiting for ranks that do not come.

use super::{
    Decider, Framework, Rung, Situation, seconds,
    timers::{Timers, times},
};
use crate::units::Nanos;

/// Up to 2.23: 20000 attempts, 1 ms apart.
const OLD_RETRIES: Nanos = Nanos::from_secs(20);

/// Nobody listens where a rank connects to.
pub(super) fn refused(timers: &Timers<'_>) -> Situation {
    let mut rungs = init_deadlines(timers);
    if timers.stack.framework != Framework::Gloo {
        rungs.push(refusals(timers));
    }
    Situation {
        name: "connect-refused",
        title: "nobody listens where a rank connects to in init; from the first attempt on",
        rungs,
    }
}

/// The same in the first operation, in which NCCL connects peers by default. PyTorch has no deadline
/// there: it counts operations from when NCCL's call has returned.
pub(super) fn refused_in_first_operation(timers: &Timers<'_>) -> Situation {
    let own = timers.stack.framework == Framework::Rank && timers.is_on("NCCL_RUNTIME_CONNECT");
    let mut rungs = Vec::new();
    if own {
        let given = timers.decider("first_op_timeout").set;
        let name = if given { "first_op_timeout" } else { "op_timeout" };
        let does = "the rank's watchdog acts as error_handling says";
        let ends = timers.decider("error_handling").value != "none";
        let deadline = timers.own_deadline(name);
        rungs.push(Rung {
            ends,
            ..timers.deadline("the rank's deadline of the first operation", deadline, does)
        });
        rungs.push(refusals(timers));
    }
    Situation {
        name: "connect-refused-in-first-operation",
        title: "nobody listens where a rank connects to in the first operation; from the first attempt on",
        rungs,
    }
}

/// NCCL's retries where each attempt is refused at once.
fn refusals(timers: &Timers<'_>) -> Rung {
    let (sleeps, deciders, reason) = retries(timers);
    Rung {
        name: "NCCL's connect retries",
        deciders,
        earliest: Some(sleeps),
        // The attempts themselves take next to nothing when they are refused.
        latest: Some(sleeps + Nanos::from_secs(1)),
        reason,
        does: "ncclRemoteError, \"exceeded error retry count\"".to_owned(),
        ends: true,
    }
}

/// What is sent to connect vanishes.
pub(super) fn silent(timers: &Timers<'_>) -> Situation {
    let mut rungs = init_deadlines(timers);
    let linear = timers.number("tcp_syn_linear_timeouts");
    let doubling = timers.number("tcp_syn_retries").min(30);
    let attempt = Nanos::from_secs((1 << (doubling + 1)) - 1 + linear);
    let kernel = ["tcp_syn_retries", "tcp_syn_linear_timeouts"].map(|name| timers.decider(name));
    if timers.stack.framework != Framework::Gloo {
        let (sleeps, mut by, reason) = retries(timers);
        by.extend(kernel);
        let attempts = match timers.nccl_from("2.24") {
            true => timers.number("NCCL_SOCKET_RETRY_CNT") + 1,
            false => 3,
        };
        let sleeps = if timers.nccl_from("2.24") { sleeps } else { Nanos::ZERO };
        rungs.push(Rung {
            name: "NCCL's connect retries",
            deciders: by,
            earliest: Some(times(attempt, attempts) + sleeps),
            latest: None,
            reason: format!(
                "{attempts} attempts that the kernel gives up after {} each, with pauses ({reason})",
                seconds(attempt)
            ),
            does: "ncclRemoteError, \"exceeded error retry count\"".to_owned(),
            ends: true,
        });
    }
    Situation {
        name: "connect-silent",
        title: "packets vanish while a rank connects in init; from the first attempt on",
        rungs,
    }
}

/// A rank never starts.
pub(super) fn missing_rank(timers: &Timers<'_>) -> Situation {
    let gloo = timers.stack.framework == Framework::Gloo;
    let mut rungs = if gloo { Vec::new() } else { init_deadlines(timers) };
    if !gloo {
        rungs.push(Rung {
            name: "NCCL's bootstrap",
            deciders: Vec::new(),
            earliest: None,
            latest: None,
            reason: "NCCL waits for all ranks without a deadline; only an abort ends it".to_owned(),
            does: String::new(),
            ends: true,
        });
    }
    if timers.stack.framework != Framework::Rank {
        let does =
            "DistStoreError, when the store counts workers or rank 0 is the one that is missing";
        rungs.push(Rung {
            ends: false,
            ..timers.deadline("the store's wait", timers.group(), does)
        });
    }
    if timers.stack.torchrun {
        let join = timers.time("rdzv join_timeout");
        rungs.push(Rung {
            name: "torchrun's rendezvous",
            deciders: vec![timers.decider("rdzv join_timeout")],
            earliest: Some(join),
            latest: None,
            reason: "when a whole node is missing; a single missing process is not its business"
                .to_owned(),
            does: "RendezvousTimeoutError".to_owned(),
            ends: false,
        });
    }
    Situation {
        name: "missing-rank",
        title: "a rank never comes to init; from the start of init on",
        rungs,
    }
}

/// The time of all pauses between connect attempts.
fn retries(timers: &Timers<'_>) -> (Nanos, Vec<Decider>, String) {
    if !timers.nccl_from("2.24") {
        return (OLD_RETRIES, Vec::new(), "fixed up to NCCL 2.23: 20000 times 1 ms".to_owned());
    }
    let names = ["NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC"];
    let count = timers.number(names[0]);
    let sleep = timers.time(names[1]);
    let total = times(sleep, count.saturating_mul(count.saturating_add(1)) / 2);
    let reason = format!("{} x N(N+1)/2 for N = {count}", seconds(sleep));
    (total, names.map(|name| timers.decider(name)).into(), reason)
}

/// Deadlines of making a communicator.
fn init_deadlines(timers: &Timers<'_>) -> Vec<Rung> {
    const NONBLOCKING: &str = "TORCH_NCCL_USE_COMM_NONBLOCKING";
    let blocking = !timers.is_on(NONBLOCKING);
    match timers.stack.framework {
        Framework::Rank => {
            let decided = timers.own_deadline("init_timeout");
            let ends = timers.decider("error_handling").value != "none";
            let does = "the rank's watchdog acts as error_handling says";
            vec![Rung { ends, ..timers.deadline("the rank's deadline of init", decided, does) }]
        }
        Framework::Gloo => {
            vec![timers.deadline("the group's timeout", timers.group(), "RuntimeError")]
        }
        Framework::ProcessGroupNccl | Framework::Nccl2 if blocking => vec![Rung {
            name: "the group's timeout",
            deciders: Vec::new(),
            earliest: None,
            latest: None,
            reason: "no operation is under way while a blocking communicator is made".to_owned(),
            does: String::new(),
            ends: true,
        }],
        Framework::Nccl2 => {
            vec![timers.deadline("the group's timeout", timers.group(), "DistBackendError")]
        }
        Framework::ProcessGroupNccl => {
            let time = timers.time("TORCH_NCCL_NONBLOCKING_TIMEOUT");
            vec![Rung {
                name: "the timeout of non-blocking calls",
                deciders: ["TORCH_NCCL_NONBLOCKING_TIMEOUT", NONBLOCKING]
                    .map(|name| timers.decider(name))
                    .into(),
                earliest: Some(time),
                latest: None,
                reason: "looked at when the communicator is next used".to_owned(),
                does: "DistBackendError \"NCCL timeout in:\"".to_owned(),
                ends: true,
            }]
        }
    }
}
