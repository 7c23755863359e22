//! Which settings of a case nothing in its backend reads.

use serde::Serialize;

use super::{Layer, lookup, own};
use crate::words::Backend;

/// The environment variables that the host stand-in reads, as NCCL does.
pub const HOST_READS: &[&str] = &[
    "NCCL_COMM_ID",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_HOSTID",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
];

/// A setting that nothing reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The setting.
    pub name: String,
    /// Why it has no effect, and what was looked at to know.
    pub reason: String,
}

/// The settings among `names` that nothing reads. `library_contains` says whether a name occurs in
/// the bytes of the loaded libnccl; it is asked for the nccl backend only.
///
/// `NCCL_TIMEOUT` is always among the findings: that ringbreaker's rank takes it as a deadline, as
/// training scripts do, does not make any library read it.
pub fn unread<'a>(
    backend: Backend,
    names: impl IntoIterator<Item = &'a str>,
    library_contains: &dyn Fn(&str) -> bool,
) -> Vec<Unread> {
    let finding = |name: &'a str| {
        let reason = reason(backend, name, library_contains)?;
        Some(Unread { name: name.to_owned(), reason })
    };
    names.into_iter().filter_map(finding).collect()
}

fn reason(backend: Backend, name: &str, library_contains: &dyn Fn(&str) -> bool) -> Option<String> {
    if own::is_own(name) {
        return None;
    }
    if name == "NCCL_TIMEOUT" {
        let reason = "no library reads it; ringbreaker's rank takes it as the deadline of init and \
                      of each operation, as training scripts do when they create a process group";
        return Some(reason.to_owned());
    }
    if let Some(doc) = lookup(name).filter(|doc| doc.layer == Layer::Nobody) {
        return Some(format!("nothing reads it: {}", doc.source));
    }
    if name.starts_with("TORCH_") {
        return Some("PyTorch reads it, and no PyTorch runs in this backend".to_owned());
    }
    match backend {
        Backend::Host if HOST_READS.contains(&name) => None,
        Backend::Host => Some(format!("the host stand-in reads only {}", HOST_READS.join(", "))),
        Backend::Nccl if !name.starts_with("NCCL_") || library_contains(name) => None,
        Backend::Nccl => Some("the name does not occur in the loaded libnccl".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(backend: Backend, given: &[&'static str], library: &[&str]) -> Vec<String> {
        let contains = |name: &str| library.contains(&name);
        unread(backend, given.iter().copied(), &contains).into_iter().map(|f| f.name).collect()
    }

    #[test]
    fn what_nothing_reads_is_found_for_each_backend() {
        let library = ["NCCL_IB_TIMEOUT", "NCCL_SOCKET_IFNAME"];
        let given = [
            "NCCL_TIMEOUT",
            "NCCL_SOCKET_TIMEOUT",
            "NCCL_IB_TIMEOUT",
            "NCCL_SOCKET_IFNAME",
            "NCCL_NO_SUCH_THING",
            "TORCH_NCCL_BLOCKING_WAIT",
            "CUDA_VISIBLE_DEVICES",
            "error_handling",
            "tcp_retries2",
        ];
        assert_eq!(
            names(Backend::Nccl, &given, &library),
            [
                "NCCL_TIMEOUT",
                "NCCL_SOCKET_TIMEOUT",
                "NCCL_NO_SUCH_THING",
                "TORCH_NCCL_BLOCKING_WAIT"
            ]
        );
        assert_eq!(
            names(Backend::Host, &given, &library),
            [
                "NCCL_TIMEOUT",
                "NCCL_SOCKET_TIMEOUT",
                "NCCL_IB_TIMEOUT",
                "NCCL_NO_SUCH_THING",
                "TORCH_NCCL_BLOCKING_WAIT",
                "CUDA_VISIBLE_DEVICES",
            ]
        );
    }
}
