//! Timers of an operation whose peer falls silent without closing its connection.

use super::{
    Framework, Rung, Situation, seconds,
    timers::{Timers, times},
};
use crate::{settings::ib_ack_time, units::Nanos};

/// First and longest pause of TCP before it sends again (TCP_RTO_MIN and TCP_RTO_MAX of Linux).
const RTO: (Nanos, Nanos) = (Nanos::from_millis(200), Nanos::from_secs(120));
/// After this long without an answer RAS declares a peer dead (RAS_PEER_DEAD_TIMEOUT in ras_internal.h,
/// times the factor).
const RAS_DEAD: Nanos = Nanos::from_secs(60);

/// Over sockets.
pub(super) fn silent_over_sockets(timers: &Timers<'_>) -> Situation {
    let retries = timers.number("tcp_retries2").min(1000);
    let pauses = (0..=retries).map(|n| {
        let pause = RTO.0.0.checked_shl(u32::try_from(n).unwrap_or(u32::MAX)).filter(|_| n < 30);
        pause.unwrap_or(u64::MAX).min(RTO.1.0)
    });
    let total = Nanos(pauses.sum());
    let mut rungs = common(timers);
    rungs.push(Rung {
        name: "the kernel's retransmissions",
        deciders: vec![timers.decider("tcp_retries2")],
        earliest: Some(total),
        latest: None,
        reason: format!(
            "{} retransmissions, 0.2 s doubling up to 120 s; more where round trips take longer, and \
             never on a side without data under way",
            retries
        ),
        does: match timers.stack.framework {
            Framework::Gloo => "an exception".to_owned(),
            _ => "ncclRemoteError, \"Connection timed out\"".to_owned(),
        },
        ends: true,
    });
    Situation {
        name: "silent-over-sockets",
        title: "a peer falls silent in an operation over sockets; from the enqueue on",
        rungs,
    }
}

/// Over InfiniBand.
pub(super) fn silent_over_infiniband(timers: &Timers<'_>) -> Situation {
    let title = "a peer falls silent in an operation over InfiniBand; from the enqueue on";
    let name = "silent-over-infiniband";
    if timers.stack.framework == Framework::Gloo || timers.is_on("NCCL_IB_DISABLE") {
        return Situation { name, title, rungs: Vec::new() };
    }
    let exponent = timers.number("NCCL_IB_TIMEOUT");
    let retries = timers.number("NCCL_IB_RETRY_CNT");
    let ack = i64::try_from(exponent).ok().and_then(ib_ack_time).filter(|_| retries <= 7);
    let mut rungs = common(timers);
    rungs.push(Rung {
        name: "InfiniBand's retries",
        deciders: ["NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"].map(|name| timers.decider(name)).into(),
        earliest: ack.map(|ack| times(ack, retries)),
        latest: None,
        reason: match ack {
            Some(ack) => format!(
                "4.096 us x 2^{exponent} = {} for an acknowledgement, x {retries}; adapters may round up",
                seconds(ack)
            ),
            None if exponent == 0 => "0 means to wait for ever".to_owned(),
            None => "beyond the hardware's fields: what the driver makes of it is not known".to_owned(),
        },
        does: "ncclRemoteError, IBV_WC_RETRY_EXC_ERR".to_owned(),
        ends: true,
    });
    Situation { name, title, rungs }
}

/// Deadlines that do not depend on the transport.
fn common(timers: &Timers<'_>) -> Vec<Rung> {
    let (name, does, ends) = match timers.stack.framework {
        Framework::Rank => {
            let ends = timers.decider("error_handling").value != "none";
            ("the rank's deadline", "the rank's watchdog acts as error_handling says", ends)
        }
        Framework::Gloo => ("the group's timeout", "RuntimeError \"Timed out waiting\"", true),
        Framework::ProcessGroupNccl | Framework::Nccl2
            if timers.is_on("TORCH_NCCL_BLOCKING_WAIT") =>
        {
            ("the group's timeout", "the waiting call aborts and raises DistBackendError", true)
        }
        Framework::ProcessGroupNccl | Framework::Nccl2 => {
            let ends = timers.mode().0 != 0;
            ("the group's timeout", "the watchdog notices, and acts as its mode says", ends)
        }
    };
    let mut rungs = vec![Rung { ends, ..timers.deadline(name, timers.operation(), does) }];
    if timers.stack.framework != Framework::Gloo && timers.nccl_from("2.24") {
        let on = timers.is_on("NCCL_RAS_ENABLE");
        let factor = timers.number("NCCL_RAS_TIMEOUT_FACTOR");
        let dead = times(RAS_DEAD, factor);
        let mut deciders = vec![timers.decider("NCCL_RAS_TIMEOUT_FACTOR")];
        deciders.extend(Some(timers.decider("NCCL_RAS_ENABLE")).filter(|_| !on));
        rungs.push(Rung {
            name: "RAS",
            deciders,
            earliest: Some(dead).filter(|_| on),
            latest: None,
            reason: match on {
                true => {
                    format!("60 s x {factor}; only for a process or host that is gone or stopped")
                }
                false => "switched off".to_owned(),
            },
            does: "reports the peer as dead, and ends nothing".to_owned(),
            ends: false,
        });
    }
    rungs
}
