//! Timers between the moment at which trouble is noticed and the end of the process.

use super::{
    Decider, Framework, Rung, Situation, seconds,
    timers::{Timers, times},
};
use crate::units::Nanos;

const DUMP: &str = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
const DUMP_ON: &str = "TORCH_NCCL_DUMP_ON_TIMEOUT";
const HEARTBEAT: &str = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
const MONITORING: &str = "TORCH_NCCL_ENABLE_MONITORING";
const COORDINATION: &str = "TORCH_NCCL_COORD_CHECK_MILSEC";
const BLOCKING: &str = "TORCH_NCCL_BLOCKING_WAIT";
/// How long printing the stack of the operation may take.
const STACK: Nanos = Nanos::from_secs(8);
/// How often torchrun looks at its workers, by default.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// How long the monitor tries to take Python's lock.
const LOCK: Nanos = Nanos::from_millis(300);

/// This rank's watchdog noticed a timeout or an error.
pub(super) fn noticed(timers: &Timers<'_>) -> Situation {
    let rungs = match timers.stack.framework {
        Framework::Rank => vec![rank_acts(timers)],
        Framework::ProcessGroupNccl if timers.is_on(BLOCKING) => switched_off(timers),
        Framework::ProcessGroupNccl => vec![watchdog_acts(timers), monitor_kills(timers)],
        Framework::Nccl2 if timers.is_on(BLOCKING) => switched_off(timers),
        Framework::Nccl2 => vec![nccl2_acts(timers)],
        Framework::Gloo => Vec::new(),
    };
    Situation {
        name: "noticed",
        title: "the watchdog of this rank has noticed a timeout or an error; from that moment on",
        rungs,
    }
}

/// Another rank's watchdog noticed something, and this one is well.
pub(super) fn noticed_elsewhere(timers: &Timers<'_>) -> Situation {
    let mut rungs = Vec::new();
    if timers.stack.framework == Framework::ProcessGroupNccl
        && timers.torch_from("2.6")
        && !timers.is_on(BLOCKING)
    {
        let dump_on = timers.is_on(DUMP_ON);
        rungs.push(Rung {
            name: "the signal in the store",
            deciders: vec![timers.decider(COORDINATION), timers.decider(DUMP_ON)],
            earliest: Some(Nanos::ZERO).filter(|_| dump_on),
            latest: Some(timers.time(COORDINATION)),
            reason: match dump_on {
                true => "looked for so often by the monitor of the default group".to_owned(),
                false => format!("{DUMP_ON} is off"),
            },
            does: "this rank dumps too".to_owned(),
            ends: false,
        });
        rungs.push(monitor_kills(timers));
        let (mode, decider) = timers.mode();
        if timers.stack.torchrun && matches!(mode, 1 | 3) {
            let sleep = times(timers.time(DUMP), 4);
            // An abort, which mode 1 makes first, may hang.
            let latest = sleep + STACK + INTERVAL + Nanos::from_secs(1);
            rungs.push(Rung {
                name: "torchrun's SIGTERM",
                deciders: vec![timers.decider(DUMP), decider],
                earliest: Some(sleep),
                latest: Some(latest).filter(|_| mode == 3),
                reason: "when the rank that noticed has ended".to_owned(),
                does: "ends this rank, unless it handles the signal".to_owned(),
                ends: true,
            });
        }
    }
    Situation {
        name: "noticed-elsewhere",
        title: "another rank's watchdog has noticed something; from that moment on, for a rank that is well",
        rungs,
    }
}

/// The watchdog's thread is stuck in a call.
pub(super) fn watchdog_hangs(timers: &Timers<'_>) -> Situation {
    let mut rungs = Vec::new();
    if timers.stack.framework == Framework::ProcessGroupNccl && timers.torch_from("2.2") {
        let heartbeat = timers.time(HEARTBEAT);
        let alive = timers.is_on(MONITORING) && !timers.is_on(BLOCKING);
        rungs.push(Rung {
            name: "the heartbeat monitor",
            deciders: heartbeat_deciders(timers),
            earliest: Some(heartbeat).filter(|_| alive),
            latest: Some(times(heartbeat, 3) + times(timers.time(DUMP), 2) + LOCK),
            reason: match alive {
                true => {
                    "noticed after one to two heartbeats, then a dump and up to one more".to_owned()
                }
                false => monitor_is_off(timers),
            },
            does: "SIGABRT, \"watchdog got stuck for\"".to_owned(),
            ends: true,
        });
    }
    Situation {
        name: "watchdog-hangs",
        title: "the watchdog's own thread hangs; from its last sign of life on",
        rungs,
    }
}

/// A process of the job ended under torchrun.
pub(super) fn rank_died(timers: &Timers<'_>) -> Situation {
    let mut rungs = Vec::new();
    if timers.stack.torchrun {
        let shutdown = timers.time("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
        rungs.push(Rung {
            name: "torchrun's SIGTERM",
            deciders: vec![timers.decider("--monitor-interval")],
            earliest: Some(Nanos::ZERO),
            latest: Some(INTERVAL),
            reason: "so often the agent looks at its workers".to_owned(),
            does: "ends ranks that do not handle it, in the middle of a dump too".to_owned(),
            ends: false,
        });
        rungs.push(Rung {
            name: "torchrun's SIGKILL",
            deciders: vec![timers.decider("TORCH_ELASTIC_SHUTDOWN_TIMEOUT")],
            earliest: Some(shutdown),
            latest: Some(shutdown + INTERVAL),
            reason: "so long after SIGTERM".to_owned(),
            does: "ends what is left".to_owned(),
            ends: true,
        });
    }
    Situation {
        name: "rank-died",
        title: "a process of the job has ended; from its death on, for the others",
        rungs,
    }
}

fn rank_acts(timers: &Timers<'_>) -> Rung {
    let wait = timers.own_time("dump_wait");
    let mode = timers.decider("error_handling");
    let does = match mode.value.as_str() {
        "teardown" => "aborts the communicator and ends the process",
        "cleanup-only" => "aborts the communicator; the process lives",
        "none" => "only logs",
        _ => "ends the process without an abort",
    };
    Rung {
        name: "the rank's watchdog",
        ends: mode.value != "none",
        deciders: vec![timers.decider("dump_wait"), mode],
        earliest: Some(wait),
        latest: Some(wait),
        reason: "dump_wait".to_owned(),
        does: does.to_owned(),
    }
}

fn watchdog_acts(timers: &Timers<'_>) -> Rung {
    let (mode, decider) = timers.mode();
    let (sleep, mut deciders, reason) = watchdog_sleep(timers);
    deciders.push(decider);
    let rethrows = timers.is_on("TORCH_NCCL_RETHROW_CUDA_ERRORS");
    if !rethrows {
        deciders.push(timers.decider("TORCH_NCCL_RETHROW_CUDA_ERRORS"));
    }
    let kills = matches!(mode, 1 | 3) && rethrows;
    Rung {
        name: "the watchdog's action",
        deciders,
        earliest: Some(sleep),
        // Mode 1 aborts before it ends the process, and that may hang.
        latest: Some(sleep + STACK).filter(|_| mode != 1),
        reason,
        does: match mode {
            0 => "nothing; the process lives",
            1 if kills => "aborts the communicators, then SIGABRT",
            2 => "aborts the communicators; the process lives",
            3 if kills => "SIGABRT without an abort",
            _ => "the watchdog ends quietly, because TORCH_NCCL_RETHROW_CUDA_ERRORS is off",
        }
        .to_owned(),
        ends: kills,
    }
}

/// How long the watchdog sleeps between noticing and acting.
fn watchdog_sleep(timers: &Timers<'_>) -> (Nanos, Vec<Decider>, String) {
    if timers.torch_from("2.7") {
        let reason =
            format!("4 x {}, in every mode, and up to 8 s for stacks", seconds(timers.time(DUMP)));
        return (times(timers.time(DUMP), 4), vec![timers.decider(DUMP)], reason);
    }
    if timers.torch_from("2.6") && timers.is_on(DUMP_ON) {
        let by = vec![timers.decider(HEARTBEAT), timers.decider(DUMP_ON)];
        let reason = "in 2.6 with dumps on the watchdog sleeps one heartbeat timeout".to_owned();
        return (timers.time(HEARTBEAT), by, reason);
    }
    (Nanos::ZERO, Vec::new(), "before 2.7 without dumps: at once".to_owned())
}

fn heartbeat_deciders(timers: &Timers<'_>) -> Vec<Decider> {
    let mut deciders = vec![timers.decider(HEARTBEAT)];
    let off = [(MONITORING, !timers.is_on(MONITORING)), (BLOCKING, timers.is_on(BLOCKING))];
    deciders.extend(off.iter().filter(|(_, off)| *off).map(|(name, _)| timers.decider(name)));
    deciders
}

fn monitor_is_off(timers: &Timers<'_>) -> String {
    match timers.is_on(BLOCKING) {
        true => format!("{BLOCKING}=1 starts neither watchdog nor monitor"),
        false => format!("{MONITORING}=0: it waits and then only logs"),
    }
}

fn monitor_kills(timers: &Timers<'_>) -> Rung {
    let heartbeat = timers.time(HEARTBEAT);
    let dump_on = timers.is_on(DUMP_ON);
    let on = dump_on && timers.is_on(MONITORING) && timers.torch_from("2.6");
    let mut deciders = heartbeat_deciders(timers);
    if !dump_on {
        deciders.push(timers.decider(DUMP_ON));
    }
    let dumps = times(timers.time(DUMP), 2);
    Rung {
        name: "the heartbeat monitor",
        deciders,
        earliest: Some(heartbeat).filter(|_| on),
        latest: Some(timers.time(COORDINATION) + dumps + LOCK + heartbeat),
        reason: match on {
            true => format!("a dump of up to {}, then one heartbeat timeout", seconds(dumps)),
            false if !dump_on => format!("{DUMP_ON} is off, so nothing tells the monitor"),
            false if !timers.is_on(MONITORING) => monitor_is_off(timers),
            false => "before 2.6 the monitor only watches the heartbeat".to_owned(),
        },
        does: "SIGABRT, also in modes 0 and 2; printing C++ stacks before can delay it".to_owned(),
        ends: true,
    }
}

fn nccl2_acts(timers: &Timers<'_>) -> Rung {
    let (mode, decider) = timers.mode();
    let dump = timers.time(DUMP);
    let kills = matches!(mode, 1 | 3);
    Rung {
        name: "nccl2's action",
        deciders: vec![timers.decider(DUMP), decider],
        earliest: Some(if kills { dump } else { Nanos::ZERO }),
        // Two rounds of hooks with two attempts to dump each; mode 1 also waits for its abort.
        latest: Some(times(dump, 5)).filter(|_| mode != 1),
        reason: format!("up to two rounds of dumps, then a sleep of {}", seconds(dump)),
        does: match mode {
            0 => "nothing; the process lives",
            1 => "aborts the communicator, then SIGABRT",
            2 => "aborts the communicator; the watchdog ends, the process lives",
            _ => "SIGABRT without an abort",
        }
        .to_owned(),
        ends: kills,
    }
}

/// With blocking wait nothing of this runs; what was set for it is lost.
fn switched_off(timers: &Timers<'_>) -> Vec<Rung> {
    let lost = [HEARTBEAT, DUMP, COORDINATION, "TORCH_NCCL_ASYNC_ERROR_HANDLING"];
    let set: Vec<Decider> =
        lost.iter().map(|name| timers.decider(name)).filter(|decider| decider.set).collect();
    vec![
        Rung {
            name: "the waiting call",
            deciders: vec![timers.decider(BLOCKING)],
            earliest: Some(Nanos::ZERO),
            latest: Some(Nanos::from_millis(1)),
            reason: "it looks every millisecond".to_owned(),
            does: "aborts the communicator and raises DistBackendError".to_owned(),
            ends: true,
        },
        Rung {
            name: "watchdog and monitor",
            deciders: set,
            earliest: None,
            latest: None,
            reason: format!("{BLOCKING}=1 starts neither"),
            does: String::new(),
            ends: true,
        },
    ]
}
