//! Which settings nothing reads, on this node.

use std::{collections::BTreeSet, fs, io, path::Path};

use ringbreaker_scenarios::{settings, words::Backend};

pub(super) use ringbreaker_scenarios::settings::Unread;

/// What every name begins with that NCCL reads.
const PREFIX: &[u8] = b"NCCL_";

/// The names that nothing in the backend reads; `library` is the copy of libnccl in use.
///
/// # Errors
/// When the library cannot be read.
pub fn unread(
    backend: Backend,
    names: &[String],
    library: Option<&Path>,
) -> io::Result<Vec<Unread>> {
    let names = || names.iter().map(String::as_str);
    let asks_library = backend == Backend::Nccl && names().any(|name| name.starts_with("NCCL_"));
    let contained = match library.filter(|_| asks_library) {
        Some(path) => names_in(&fs::read(path)?),
        None => BTreeSet::new(),
    };
    Ok(settings::unread(backend, names(), &|name| contained.contains(name)))
}

/// Every whole name that occurs in the bytes of a library.
fn names_in(bytes: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == PREFIX[0]) {
        at += found;
        if !bytes[at..].starts_with(PREFIX) {
            at += 1;
            continue;
        }
        let of_a_name = |byte: &&u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
        let length = bytes[at..].iter().take_while(of_a_name).count();
        names.insert(String::from_utf8_lossy(&bytes[at..at + length]).into_owned());
        at += length;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_count() {
        let found = names_in(b"\0NCCL_DEBUG_FILE\0NNCCL_P2P_LEVEL=\0NCCL\0NCCL_CHECKS_DISABLE");
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["NCCL_CHECKS_DISABLE", "NCCL_DEBUG_FILE", "NCCL_P2P_LEVEL"]);
    }

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
