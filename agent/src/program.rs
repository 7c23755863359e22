//! Where the `ringbreaker` executable is, for the helper processes that are itself.

use std::{env, io, path::PathBuf};

/// Names another executable than the running one; tests that embed this crate set it.
pub const PROGRAM_VARIABLE: &str = "RINGBREAKER_EXE";

/// The executable to start for `rank`, `guard`, `press-memory`,
/// `press-page-cache` and `hold-gpu-memory`.
///
/// # Errors
/// When the running executable has no path any more, such as after an upgrade in place.
pub fn program() -> io::Result<PathBuf> {
    match env::var_os(PROGRAM_VARIABLE) {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => env::current_exe(),
    }
}
