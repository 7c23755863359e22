//! Kernel limits of a node and of the ranks on it.

use super::{Layer, SettingDoc};

const fn doc(
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    effect: &'static str,
    source: &'static str,
) -> SettingDoc {
    SettingDoc { name, layer: Layer::Kernel, reads: "the kernel", unit, default, effect, source }
}

const SYSCTL: &str = "kernel documentation, networking/ip-sysctl";

pub(super) const DOCS: &[SettingDoc] = &[
    doc(
        "shm_size",
        "",
        "as on a fresh tmpfs: half of the memory",
        "size of the node's /dev/shm; NCCL takes 34,210,176 bytes a rank there while it connects \
         (measured, 2 ranks, NCCL 2.28); Docker's default is 64 MiB",
        "tmpfs(5)",
    ),
    doc(
        "memory_limit",
        "",
        "none",
        "memory limit of each rank's cgroup; above it the OOM killer ends the rank",
        "cgroups(7), memory controller",
    ),
    doc(
        "nofile",
        "descriptors",
        "as the agent's own",
        "how many descriptors a rank may have open; beyond it socket, accept and open fail with \
         EMFILE",
        "getrlimit(2), RLIMIT_NOFILE",
    ),
    doc(
        "tcp_retries1",
        "retransmissions",
        "3",
        "after so many the kernel begins to doubt the route",
        SYSCTL,
    ),
    doc(
        "tcp_retries2",
        "retransmissions",
        "15",
        "after so many of unacknowledged data a connection fails with ETIMEDOUT: about 15 minutes \
         by default. NCCL sets no keep-alive and no TCP_USER_TIMEOUT on its sockets, so this is \
         the only end that a silent link has for it",
        "kernel documentation, networking/ip-sysctl; NCCL 2.30 source, src/misc/socket.cc",
    ),
    doc(
        "tcp_syn_retries",
        "retransmissions",
        "6",
        "after so many an unanswered connect fails with ETIMEDOUT: about 127 s by default",
        SYSCTL,
    ),
    doc("tcp_synack_retries", "retransmissions", "5", "the same for the accepting side", SYSCTL),
    doc(
        "tcp_syn_linear_timeouts",
        "retransmissions",
        "4 (Linux 6.5 and later)",
        "so many first SYN retransmissions come one second apart, before the time doubles",
        SYSCTL,
    ),
    doc(
        "tcp_keepalive_time",
        "s",
        "7200",
        "silence before the first keep-alive probe, on sockets that ask for it; NCCL's do not",
        SYSCTL,
    ),
    doc("tcp_keepalive_intvl", "s", "75", "time between keep-alive probes", SYSCTL),
    doc(
        "tcp_keepalive_probes",
        "probes",
        "9",
        "unanswered probes before a connection fails",
        SYSCTL,
    ),
    doc(
        "ip_local_port_range",
        "two ports",
        "32768 60999",
        "where the kernel takes automatic ports from; all of NCCL's listeners but NCCL_COMM_ID's \
         and the RAS client port are there",
        "kernel documentation, networking/ip-sysctl; NCCL 2.30 source, src/bootstrap.cc",
    ),
];
