//! Where copies of libnccl, and of PyTorch, lie on this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The name of the file that programs load. Runtime packages and Python wheels have only this one,
/// without the `libnccl.so` that compilers look for.
const FILE: &str = "libnccl.so.2";
/// Where distributions and NVIDIA's packages put libraries.
const SYSTEM: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
];
/// Where Python environments lie: each is a directory with `lib/python3.N`, or holds such.
const PYTHON: &[&str] = &["/usr", "/usr/local", "/opt", "/opt/conda"];
/// What `pip install nvidia-nccl-cuNN` makes below a site-packages directory.
const WHEEL: &str = "nvidia/nccl/lib";

/// The copies to use, best first: those that are named, and only those if any are; else what
/// LD_LIBRARY_PATH, Python environments and the system's directories hold. Each real file once.
pub fn copies(named: &[PathBuf]) -> Vec<PathBuf> {
    if !named.is_empty() {
        return distinct(named.iter().map(|path| match path.is_dir() {
            true => path.join(FILE),
            false => path.clone(),
        }));
    }
    let listed = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = env::split_paths(&listed).filter(|dir| dir.is_absolute());
    let python = packages(WHEEL);
    let system = SYSTEM.iter().map(PathBuf::from);
    let files = listed.chain(python).chain(system).map(|dir| dir.join(FILE));
    distinct(files.filter(|file| file.is_file()))
}

/// Directories of installed PyTorch packages: those of the active Python environment first.
pub fn torch_packages() -> Vec<PathBuf> {
    distinct(packages("torch").into_iter())
}

/// Whether some system directory has a file of this name, and which.
pub fn in_system(file: &str) -> Option<PathBuf> {
    SYSTEM.iter().map(|dir| Path::new(dir).join(file)).find(|path| path.is_file())
}

/// Directories of this name in the Python environments of this machine.
fn packages(name: &str) -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"];
    let active = active.iter().filter_map(env::var_os).map(PathBuf::from);
    active.chain(PYTHON.iter().map(PathBuf::from)).flat_map(|root| inside(&root, name)).collect()
}

/// Directories of this name below a root: in its own environment, and in those one and two levels
/// down (such as /opt/torch/.venv).
fn inside(root: &Path, wanted: &str) -> Vec<PathBuf> {
    let environments = |root: &Path| {
        let below = directories(root);
        let two = below.iter().map(|dir| dir.join(".venv")).filter(|dir| dir.is_dir());
        let two: Vec<PathBuf> = two.collect();
        [vec![root.to_owned()], below, two].concat()
    };
    let mut found = Vec::new();
    for environment in environments(root) {
        for python in directories(&environment.join("lib")) {
            let name = python.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Distributions have one `python3` for all their versions.
            if name.starts_with("python3") {
                let sites = ["site-packages", "dist-packages"];
                found.extend(sites.map(|site| python.join(site).join(wanted)));
            }
        }
    }
    found.retain(|dir| dir.is_dir());
    found
}

/// The directories in a directory, by name; none where it cannot be read.
fn directories(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// Each file once, by the first of its names.
fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut real = Vec::new();
    let mut kept = Vec::new();
    for path in paths {
        // A named file that does not exist is kept: whoever loads it says so.
        let target = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !real.contains(&target) {
            real.push(target);
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn wheels_are_found_in_the_environments_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        let wheel = |environment: &str| {
            let dir =
                root.path().join(environment).join("lib/python3.12/site-packages").join(WHEEL);
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let (own, venv) = (wheel("."), wheel("torch/.venv"));
        let other = root.path().join("x/lib/python2.7/site-packages").join(WHEEL);
        fs::create_dir_all(other).unwrap();
        let found: Vec<_> =
            inside(root.path(), WHEEL).iter().map(|dir| fs::canonicalize(dir).unwrap()).collect();
        assert_eq!(found, [own, venv].map(|dir| fs::canonicalize(dir).unwrap()));
    }

    #[test]
    fn a_file_with_two_names_is_one_copy_and_what_is_named_is_not_searched_for() {
        let root = tempfile::tempdir().unwrap();
        let (file, link) = (root.path().join(FILE), root.path().join("again.so"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let absent = root.path().join("absent.so");
        let named = [link.clone(), file, absent.clone()];
        assert_eq!(copies(&named), [link, absent]);
        assert_eq!(copies(&[root.path().to_owned()]), [root.path().join(FILE)]);
    }
}
