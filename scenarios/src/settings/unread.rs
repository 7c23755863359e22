//! Which settings of a case nothing in its backend reads.

use serde::Serialize;

use super::{Layer, Reader, all, lookup, own};
use crate::words::Backend;

/// The environment variables that the host stand-in reads, as NCCL does.
pub fn host_reads() -> Vec<&'static str> {
    let read = all().iter().filter(|doc| doc.is_read_by(&[Reader::HostStandIn]));
    read.map(|doc| doc.name.as_str()).collect()
}

const OF_PYTORCH: &str = "PyTorch reads it, and no PyTorch runs in this backend";

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
    let doc = lookup(name);
    match doc.map(|doc| doc.layer) {
        Some(Layer::Nobody) => {
            return doc.map(|doc| format!("nothing reads it: {}", doc.source));
        }
        Some(Layer::Pytorch | Layer::Gloo) => return Some(OF_PYTORCH.to_owned()),
        None if name.starts_with("TORCH_") => return Some(OF_PYTORCH.to_owned()),
        _ => {}
    }
    match backend {
        Backend::Host => {
            let read = host_reads();
            let unread = || format!("the host stand-in reads only {}", read.join(", "));
            (!read.contains(&name)).then(unread)
        }
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
