//! Builds the fake libnccl and libcuda of tests/fake_nccl with the system's C compiler.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A directory with the fake in it.
pub(super) struct Fake {
    dir: TempDir,
}

impl Fake {
    /// Compiles it; `without` are the symbols to leave out, such as `LACKS_ASYNC`.
    pub(super) fn build(without: &[&str]) -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_nccl/fake_nccl.c");
        let library = dir.path().join("libnccl.so.2");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror"])
            .args(without.iter().map(|symbol| format!("-D{symbol}")))
            .arg("-o")
            .args([&library, &source])
            .output()
            .expect("the C compiler that cargo links with");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        // One file under both names is loaded once, so that the driver knows what NCCL does.
        symlink(&library, dir.path().join("libcuda.so")).unwrap();
        Fake { dir }
    }

    pub(super) fn library(&self) -> PathBuf {
        self.dir.path().join("libnccl.so.2")
    }

    pub(super) fn directory(&self) -> &Path {
        self.dir.path()
    }
}
