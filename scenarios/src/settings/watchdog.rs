//! The settings of ringbreaker's own rank: deadlines, and what happens when they pass.

use super::{Layer, SettingDoc};

const fn doc(
    name: &'static str,
    default: &'static str,
    effect: &'static str,
    source: &'static str,
) -> SettingDoc {
    SettingDoc {
        name,
        layer: Layer::Rank,
        reads: "ringbreaker's rank",
        unit: "",
        default,
        effect,
        source,
    }
}

pub(super) const DOCS: &[SettingDoc] = &[
    doc(
        "error_handling",
        "skip-cleanup",
        "what the watchdog does about an error or a timeout: teardown aborts the communicator and \
         ends the process, cleanup-only aborts and lets it live, skip-cleanup ends it without an \
         abort, none only logs",
        "PyTorch's TORCH_NCCL_ASYNC_ERROR_HANDLING, modes 1, 2, 3 and 0 (ProcessGroupNCCL, read in \
         its late 2025 source); torchrun sets mode 1 in its workers",
    ),
    doc(
        "op_timeout",
        "NCCL_TIMEOUT if that is given, else never",
        "deadline of every operation, counted from its enqueue",
        "the timeout of a PyTorch process group; raw NCCL has none",
    ),
    doc(
        "init_timeout",
        "NCCL_TIMEOUT if that is given, else never",
        "deadline of communicator creation",
        "neither NCCL nor PyTorch in blocking mode has one: a missing rank was waited for until it \
         was killed after 94 s (measured, NCCL 2.28)",
    ),
    doc(
        "first_op_timeout",
        "op_timeout",
        "deadline of the first operation, in which connections are made",
        "with NCCL_RUNTIME_CONNECT=1, its default, NCCL connects peers on first use (src/init.cc)",
    ),
    doc(
        "blocking_wait",
        "false",
        "the calling thread waits for each operation itself, aborts and ends on an error or \
         timeout; no watchdog runs",
        "PyTorch's TORCH_NCCL_BLOCKING_WAIT; its current releases start no watchdog under it",
    ),
    doc(
        "watchdog_poll",
        "100ms",
        "how often the watchdog looks: every detection is late by up to this",
        "the wake-up period of PyTorch's watchdog thread",
    ),
    doc(
        "dump_wait",
        "0s",
        "how long the watchdog waits between noticing and acting, as PyTorch does for its dumps",
        "PyTorch 2.7 and later: 4 x TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, 60 s by default, in every \
         mode",
    ),
    doc(
        "coordinated_abort",
        "false",
        "the controller tells all ranks to abort at the first sign of trouble in one",
        "ringbreaker's own; without it detection travels from neighbour to neighbour, about 0.6 s \
         a hop (measured, 8 ranks, NCCL 2.28)",
    ),
];
