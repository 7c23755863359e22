//! Pieces of the sentences that say why.

use ringbreaker_scenarios::{case::Rank, units::Nanos, words::Detector};

use super::{JobReport, RankReport};

/// `rank 2`, `ranks 0 and 2`, `ranks 0, 2 and 3`.
pub(crate) fn ranks(ranks: impl IntoIterator<Item = Rank>) -> String {
    let names: Vec<String> = ranks.into_iter().map(|rank| rank.to_string()).collect();
    match names.as_slice() {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [most @ .., last] => format!("ranks {} and {last}", most.join(", ")),
    }
}

/// A detector as a noun, such as `an asynchronous error`.
pub(crate) fn detector(detector: Detector) -> &'static str {
    match detector {
        Detector::AsyncError => "an asynchronous error",
        Detector::CallError => "an error from a call",
        Detector::RankWatchdog => "the rank's watchdog",
        Detector::TorchWatchdog => "PyTorch's watchdog",
        Detector::HeartbeatMonitor => "PyTorch's heartbeat monitor",
        Detector::Kernel => "the kernel",
        Detector::DataCheck => "the check of results",
        Detector::Checkpoint => "a checkpoint that could not be written",
        Detector::Controller => "word from the controller",
        Detector::Nobody => "nobody",
    }
}

/// `rank 0 noticed first, by an asynchronous error (ncclRemoteError), 4 ms after the effect`; none
/// when nobody did.
pub(super) fn first_notice(ranks: &[RankReport], job: &JobReport) -> Option<String> {
    let rank = ranks.iter().find(|rank| Some(rank.rank) == job.detected_by)?;
    let class = rank.error_class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
    let when = match (job.detected?.since_effect, job.effect) {
        (Some(Nanos::ZERO), _) => ", at the moment of the effect".to_owned(),
        (Some(time), _) => format!(", {time} after the effect"),
        (None, Some(_)) => ", before any fault took effect".to_owned(),
        (None, None) => String::new(),
    };
    Some(format!("rank {} noticed first, by {}{class}{when}", rank.rank, detector(rank.detector)))
}
