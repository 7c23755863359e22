//! The closed vocabularies of the project. Each word means one thing, everywhere.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an enum whose variants have one fixed spelling, used in files, on the command line, in
/// the store and in reports alike.
macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal) { $( $(#[$vmeta:meta])* $variant:ident = $word:literal ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum $name { $( $(#[$vmeta])* #[serde(rename = $word)] $variant ),+ }

        impl $name {
            /// Every word, in the order in which they are explained.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The fixed spelling.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<$name, UnknownWord> {
                $name::ALL.iter().copied().find(|w| w.word() == text).ok_or_else(|| UnknownWord {
                    given: text.to_owned(),
                    what: $what,
                    known: $name::ALL.iter().map(|w| w.word()).collect(),
                })
            }
        }
    };
}

/// A word outside a closed vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no {what}; one of: {}", known.join(", "))]
pub struct UnknownWord {
    /// What was written.
    pub given: String,
    /// What kind of word was wanted.
    pub what: &'static str,
    /// The words there are.
    pub known: Vec<&'static str>,
}

vocabulary! {
    /// What a rank runs.
    Backend ("backend") {
        /// The CPU stand-in: rehearses the harness, says nothing about anybody's NCCL.
        Host = "host",
        /// libnccl itself, opened at run time.
        Nccl = "nccl",
    }
}

vocabulary! {
    /// A collective (or point-to-point) operation.
    Collective ("collective") {
        /// Every rank gets the sum.
        AllReduce = "all_reduce",
        /// Every rank gets every rank's part.
        AllGather = "all_gather",
        /// Every rank gets its part of the sum.
        ReduceScatter = "reduce_scatter",
        /// Every rank gets rank 0's buffer.
        Broadcast = "broadcast",
        /// Rank 0 gets the sum.
        Reduce = "reduce",
        /// Every rank sends a part to every rank.
        AllToAll = "all_to_all",
        /// Every rank sends to its right neighbour and receives from its left.
        SendRecv = "send_recv",
    }
}

vocabulary! {
    /// Who writes a checkpoint.
    CheckpointRanks ("choice of ranks") {
        /// Every rank, its own.
        All = "all",
        /// Rank 0, for all.
        First = "first",
    }
}

vocabulary! {
    /// Element type of the buffers.
    Dtype ("dtype") {
        /// IEEE single precision, 4 bytes.
        F32 = "f32",
        /// IEEE half precision, 2 bytes.
        F16 = "f16",
        /// bfloat16, 2 bytes.
        Bf16 = "bf16",
        /// Signed integer, 4 bytes.
        I32 = "i32",
    }
}

impl Dtype {
    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }
}

vocabulary! {
    /// What the rank's watchdog does when it finds an error or a timeout, as PyTorch's
    /// TORCH_NCCL_ASYNC_ERROR_HANDLING defines it (modes 0 to 3).
    ErrorHandling ("error-handling mode") {
        /// Mode 1: abort the communicator, then end the process (SIGABRT).
        Teardown = "teardown",
        /// Mode 2: abort the communicator, the process lives on and sees the aborted communicator.
        CleanupOnly = "cleanup-only",
        /// Mode 3: end the process (SIGABRT) without aborting.
        SkipCleanup = "skip-cleanup",
        /// Mode 0: log, and do nothing.
        None = "none",
    }
}

vocabulary! {
    /// Where a rank is in its life.
    Phase ("phase") {
        /// The process is up and holds its device; the communicator is not asked for yet.
        BeforeInit = "before-init",
        /// Inside communicator creation.
        Init = "init",
        /// Inside the first operation, when connections are made.
        FirstOp = "first-op",
        /// Later operations.
        Steady = "steady",
        /// Inside abort.
        Abort = "abort",
        /// The work is finished or given up; the process is leaving.
        Done = "done",
    }
}

vocabulary! {
    /// Who was first to notice.
    Detector ("detector") {
        /// The communicator's asynchronous error.
        AsyncError = "async-error",
        /// An error returned from a call.
        CallError = "call-error",
        /// The rank's own watchdog: a deadline passed.
        RankWatchdog = "rank-watchdog",
        /// PyTorch's watchdog thread.
        TorchWatchdog = "torch-watchdog",
        /// PyTorch's heartbeat monitor.
        HeartbeatMonitor = "heartbeat-monitor",
        /// The kernel: a signal that ringbreaker did not send (OOM killer, segmentation fault).
        Kernel = "kernel",
        /// The comparison of a finished operation's result with the exact expected values.
        DataCheck = "data-check",
        /// The rank itself: its checkpoint could not be written.
        Checkpoint = "checkpoint",
        /// The controller told the rank (coordinated mode).
        Controller = "controller",
        /// Nobody.
        Nobody = "nobody",
    }
}

vocabulary! {
    /// How a case ended, exactly one.
    Outcome ("outcome") {
        /// Every op right, no visible effect.
        Completed = "completed",
        /// Every op right, slower than the clean tail.
        Degraded = "degraded",
        /// A failure was handled (re-init or shrink) and the work was finished, data right.
        Recovered = "recovered",
        /// Every surviving rank was told and ended by itself.
        FailedClean = "failed-clean",
        /// Some ranks ended by themselves, others had to be killed by the harness.
        FailedPartial = "failed-partial",
        /// Noticed, but abort or teardown did not end.
        AbortHung = "abort-hung",
        /// Nobody noticed before the cap.
        Hung = "hung",
        /// A rank that was not the target died of a signal or panic.
        Crashed = "crashed",
        /// An op reported success with wrong contents.
        WrongData = "wrong-data",
        /// No witness saw the fault take effect, or it cannot touch the transport in use.
        NotExposed = "not-exposed",
        /// Steady state never reached, or the node lacks what the fault needs.
        NotRunnable = "not-runnable",
    }
}

vocabulary! {
    /// Whether the outcome held against the expectations. Ordered: `pass < unknown < fail`.
    Verdict ("verdict") {
        /// Every expectation held.
        Pass = "pass",
        /// The evidence does not suffice.
        Unknown = "unknown",
        /// An expectation did not hold.
        Fail = "fail",
    }
}
