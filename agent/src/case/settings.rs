//! Which settings nothing reads, on this node.

use std::{io, path::Path};

use ringbreaker_scenarios::{settings, words::Backend};

use crate::rank::nccl::names::{self, Trace};

pub(super) use ringbreaker_scenarios::settings::Unread;

/// What every name begins with that NCCL reads.
const PREFIX: &str = "NCCL_";

/// The names that nothing in the backend reads; `library` is the copy of libnccl in use.
///
/// # Errors
/// When the library cannot be read.
pub fn unread(
    backend: Backend,
    names: &[String],
    library: Option<&Path>,
) -> io::Result<Vec<Unread>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asked: Vec<&str> = match backend {
        Backend::Host => Vec::new(),
        Backend::Nccl => names.iter().copied().filter(|name| name.starts_with(PREFIX)).collect(),
    };
    let found = match library {
        Some(path) if !asked.is_empty() => names::traces(path, &asked)?,
        _ => vec![Trace::Absent; asked.len()],
    };
    // Only what is nowhere is known to be unread.
    let there = |found: Trace| found != Trace::Absent;
    let contains =
        |name: &str| asked.iter().zip(&found).any(|(asked, f)| *asked == name && there(*f));
    Ok(settings::unread(backend, names, &contains))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_the_library_does_not_contain_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("libnccl.so.2");
        fs::write(&library, b"\x7fELF\0NCCL_DEBUG\0NCCL_SOCKET_IFNAME\0").unwrap();
        let names = ["NCCL_DEBUG".to_owned(), "NCCL_NO_SUCH_THING".to_owned()];
        let unread = unread(Backend::Nccl, &names, Some(&library)).unwrap();
        let unread: Vec<&str> = unread.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(unread, ["NCCL_NO_SUCH_THING"]);
    }

    #[test]
    fn a_library_that_cannot_be_read_is_an_error_and_not_a_finding() {
        let names = ["NCCL_DEBUG".to_owned()];
        assert!(unread(Backend::Nccl, &names, Some(Path::new("/nonexistent"))).is_err());
    }
}
