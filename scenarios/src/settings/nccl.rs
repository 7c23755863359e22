//! The variables of NCCL that matter when something breaks.

use super::{Layer, SettingDoc};

const fn doc(
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    effect: &'static str,
    source: &'static str,
) -> SettingDoc {
    SettingDoc { name, layer: Layer::Nccl, reads: "libnccl", unit, default, effect, source }
}

const SOCKET: &str = "NCCL source 2.30.7, src/misc/socket.cc";
const BOOTSTRAP: &str = "NCCL source 2.30.7, src/bootstrap.cc";
const IB_CONNECT: &str = "NCCL source 2.30.7, src/transport/net_ib/connect.cc";
const DEBUG: &str = "NCCL source 2.30.7, src/debug.cc";

pub(super) const DOCS: &[SettingDoc] = &[
    doc(
        "NCCL_SOCKET_RETRY_CNT",
        "retries",
        "34",
        "how often a refused, timed-out or unreachable TCP connect is tried again, from 2.24 on; \
         with the default sleep it gives up after 59.5 s, with ncclRemoteError",
        SOCKET,
    ),
    doc(
        "NCCL_SOCKET_RETRY_SLEEP_MSEC",
        "ms",
        "100",
        "the k-th connect retry comes k times this after the one before",
        SOCKET,
    ),
    doc(
        "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
        "ms",
        "0",
        "above 0, bootstrap sends and receives sleep in poll() between attempts; no deadline",
        SOCKET,
    ),
    doc(
        "NCCL_SOCKET_IFNAME",
        "",
        "unset: InfiniBand first, then others, docker and loopback last",
        "which interfaces are used; when none matches, init fails with ncclInvalidUsage",
        SOCKET,
    ),
    doc(
        "NCCL_SOCKET_FAMILY",
        "",
        "unset: IPv4 and IPv6",
        "AF_INET or AF_INET6 restricts the choice of interfaces",
        SOCKET,
    ),
    doc(
        "NCCL_COMM_ID",
        "",
        "unset: a port of the kernel's choice",
        "address and port where rank 0 waits for the others; taken by somebody else, rank 0 fails \
         with ncclSystemError and the others wait",
        BOOTSTRAP,
    ),
    doc(
        "NCCL_OOB_NET_ENABLE",
        "",
        "0",
        "the bootstrap ring runs over the network plugin, without any deadline",
        BOOTSTRAP,
    ),
    doc(
        "NCCL_RUNTIME_CONNECT",
        "",
        "1",
        "peers are connected in the first operation (1) or in init (0): decides where a failing \
         connect shows; with NCCL_CUMEM_ENABLE=0 always in init",
        "NCCL source 2.30.7, src/init.cc",
    ),
    doc(
        "NCCL_COMM_BLOCKING",
        "",
        "unset: as the program configures, else 1",
        "0: calls return ncclInProgress and errors come through ncclCommGetAsyncError",
        "NCCL source 2.30.7, src/init.cc",
    ),
    doc(
        "NCCL_HOSTID",
        "",
        "unset: host name and boot id",
        "which ranks believe they share a host; different values on one host force the network",
        "NCCL source 2.30.7, src/misc/utils.cc",
    ),
    doc(
        "NCCL_CUMEM_ENABLE",
        "",
        "-2: on where the driver supports it",
        "device buffers through the CUDA virtual memory API; 0 also moves all connecting into init",
        "NCCL source 2.30.7, src/misc/cudawrap.cc",
    ),
    doc(
        "NCCL_CUMEM_HOST_ENABLE",
        "",
        "-1: on where the driver supports it",
        "host buffers through the same API instead of files in /dev/shm",
        "NCCL source 2.30.7, src/misc/cudawrap.cc",
    ),
    doc(
        "NCCL_SHM_DISABLE",
        "",
        "0",
        "1: no shared-memory transport; control segments in /dev/shm are still made",
        "NCCL source 2.30.7, src/transport/shm.cc",
    ),
    doc(
        "NCCL_P2P_DISABLE",
        "",
        "unset",
        "1: GPUs do not reach each other's memory directly",
        "NCCL source 2.30.7, src/graph/paths.cc",
    ),
    doc(
        "NCCL_BUFFSIZE",
        "bytes",
        "4194304",
        "buffer of a channel, the main term of a shared-memory segment's size",
        "NCCL source 2.30.7, src/init.cc",
    ),
    doc(
        "NCCL_NET",
        "",
        "unset: the first that works",
        "IB, Socket or a plugin's name; when it is not there, init fails with ncclInvalidUsage",
        "NCCL source 2.30.7, src/plugin/net.cc",
    ),
    doc(
        "NCCL_NET_PLUGIN",
        "",
        "unset: libnccl-net.so if there is one",
        "which network plugin is loaded; a failing one is passed over with a line at level INFO",
        "NCCL source 2.30.7, src/plugin/net.cc",
    ),
    doc(
        "NCCL_IB_TIMEOUT",
        "exponent of 4.096 us x 2^n",
        "20 (18 in 2.14 to 2.22, 14 before)",
        "time to an InfiniBand acknowledgement; not seconds, not checked: 600 is cut to 88",
        IB_CONNECT,
    ),
    doc(
        "NCCL_IB_RETRY_CNT",
        "retries",
        "7",
        "how often an unacknowledged InfiniBand packet is sent again; with the default timeout a \
         lost peer is noticed after about 30 s, with ncclRemoteError",
        IB_CONNECT,
    ),
    doc(
        "NCCL_IB_DISABLE",
        "",
        "0",
        "1: no InfiniBand or RoCE, sockets instead",
        "NCCL source 2.30.7, src/transport/net_ib/init.cc",
    ),
    doc(
        "NCCL_IB_RETURN_ASYNC_EVENTS",
        "",
        "1",
        "fatal events of an InfiniBand device become errors of the communicator; 0 only warns",
        "NCCL source 2.30.7, src/transport/net_ib/common.cc",
    ),
    doc(
        "NCCL_RAS_ENABLE",
        "",
        "1",
        "the RAS thread watches peers and answers queries; it never ends a communicator",
        "NCCL source 2.30.7, src/ras/ras.cc",
    ),
    doc(
        "NCCL_RAS_ADDR",
        "",
        "localhost:28028",
        "where RAS answers queries; all processes of a user share the port",
        "NCCL source 2.30.7, src/ras/client_support.cc",
    ),
    doc("NCCL_DEBUG", "", "unset: silent", "log level: VERSION, WARN, INFO, TRACE", DEBUG),
    doc(
        "NCCL_DEBUG_SUBSYS",
        "",
        "INIT,BOOTSTRAP,ENV",
        "which parts log at INFO and TRACE; warnings are not filtered",
        DEBUG,
    ),
    doc(
        "NCCL_DEBUG_FILE",
        "",
        "standard output",
        "where the log goes; ringbreaker sets it for each rank",
        DEBUG,
    ),
];
