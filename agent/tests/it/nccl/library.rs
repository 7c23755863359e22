//! Loading: every way in which a file can be the wrong one has a message that says which.

use std::fs;

use ringbreaker_agent::rank::nccl::{
    find,
    library::{LibraryError, Loaded},
    names,
};

use super::fake::Fake;

#[test]
fn a_copy_tells_its_version_and_which_optional_functions_it_has() {
    let fake = Fake::build(&[]);
    let loaded = Loaded::open(&fake.library()).unwrap();
    assert_eq!(loaded.version().to_string(), "2.28.9");
    assert_eq!(loaded.optional(), ["ncclCommRevoke", "ncclCommShrink"]);
    assert_eq!(loaded.path(), fake.library());
}

#[test]
fn a_copy_without_optional_functions_can_be_used_all_the_same() {
    let fake = Fake::build(&["LACKS_OPTIONAL"]);
    assert_eq!(Loaded::open(&fake.library()).unwrap().optional(), [""; 0]);
}

#[test]
fn a_copy_without_a_function_that_is_needed_is_refused_with_its_name() {
    let fake = Fake::build(&["LACKS_ASYNC"]);
    let error = Loaded::open(&fake.library()).unwrap_err();
    assert!(
        matches!(error, LibraryError::Lacks { symbol: "ncclCommGetAsyncError", .. }),
        "{error}"
    );
    let message = error.to_string();
    assert!(message.contains("ncclCommGetAsyncError") && message.contains("2.14"), "{message}");
}

#[test]
fn a_file_that_is_no_library_is_refused_in_the_loaders_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("libnccl.so.2");
    fs::write(&file, "no library at all ".repeat(500)).unwrap();
    let message = Loaded::open(&file).unwrap_err().to_string();
    assert_eq!(message, format!("{} cannot be loaded: invalid ELF header", file.display()));
    let message = Loaded::open(&dir.path().join("absent.so")).unwrap_err().to_string();
    assert!(message.contains("No such file or directory"), "{message}");
}

#[test]
fn a_real_copy_on_this_machine_loads_and_knows_nccls_settings_and_no_others() {
    let Some(path) = find::copies(&[]).into_iter().next() else {
        println!("SKIPPED: there is no libnccl.so.2 on this machine");
        return;
    };
    let loaded = Loaded::open(&path).unwrap();
    assert_eq!(loaded.version().major, 2, "{loaded:?}");
    let asked = ["NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_TIMEOUT", "NCCL_TIMEOUT"];
    let known = names::contained(&path, &asked).unwrap();
    assert_eq!(known, [true, true, false, false], "{loaded:?}");
}
