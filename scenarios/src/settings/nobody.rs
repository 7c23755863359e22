//! Names that are set in the belief that something reads them.

use super::{Layer, SettingDoc};

const fn doc(
    name: &'static str,
    reads: &'static str,
    unit: &'static str,
    effect: &'static str,
) -> SettingDoc {
    SettingDoc { name, layer: Layer::Nobody, reads, unit, default: "none", effect, source: ABSENT }
}

const ABSENT: &str = "the name is absent from NCCL's source (2.9 to 2.30.7), from the bytes of \
                      libnccl 2.32.3, and from PyTorch 2.15";

pub(super) const DOCS: &[SettingDoc] = &[
    doc(
        "NCCL_TIMEOUT",
        "no library; some training scripts, and ringbreaker's rank like them",
        "s",
        "scripts hand it on as the timeout of the process group; here: the deadline of init and of \
         each operation, unless init_timeout or op_timeout is given",
    ),
    doc("NCCL_SOCKET_TIMEOUT", "nobody", "", "none"),
    doc("NCCL_SOCKET_TIMEOUT_MS", "nobody", "", "none"),
    doc("NCCL_CONNECT_TIMEOUT", "nobody", "", "none"),
    doc("NCCL_NET_RETRY_COUNT", "nobody", "", "none"),
    doc("NCCL_TIMEOUT_MINS", "nobody", "", "none"),
    doc("NCCL_ABORT_ON_ERROR", "nobody", "", "none"),
];
