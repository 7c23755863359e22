//! The libraries that settings are looked up in: libnccl, PyTorch with its Python sources, gloo.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use ringbreaker_agent::rank::nccl::{
    find,
    library::Loaded,
    names::{self, Trace},
};
use ringbreaker_scenarios::settings::Version;

/// PyTorch's own libraries that read settings.
const TORCH: &[&str] = &["libtorch_cuda.so", "libtorch_cpu.so", "libtorch_python.so"];
/// Gloo, where it is a library of its own; PyTorch's wheels have it inside libtorch_cpu.
const GLOO: &str = "libgloo.so.0";
/// What reads settings in Python.
const SOURCES: &str = "distributed";

/// A library to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    /// `libnccl`, `PyTorch` or `gloo`.
    pub(super) what: &'static str,
    /// Its version, if it says one.
    pub(super) version: Option<String>,
    /// What it consists of.
    pub(super) files: Vec<PathBuf>,
    /// What is to be said about how it was found.
    pub(super) remark: String,
}

/// How these names stand in a library.
pub(super) fn contained(
    library: &Library,
    names: &[&str],
) -> Result<Vec<Trace>, (PathBuf, io::Error)> {
    let mut all = vec![Trace::Absent; names.len()];
    for file in &library.files {
        let found = names::traces(file, names).map_err(|error| (file.clone(), error))?;
        for (all, found) in all.iter_mut().zip(found) {
            *all = (*all).max(found);
        }
    }
    Ok(all)
}

impl Library {
    /// Its version as a number.
    pub(super) fn number(&self) -> Option<Version> {
        self.version.as_deref().and_then(Version::first)
    }

    /// Whether a PyTorch has process groups over NCCL: distributions build it without CUDA.
    pub(super) fn is_built_with_nccl(&self) -> bool {
        self.files.iter().any(|file| file.ends_with(TORCH[0]))
    }

    /// As a column's title.
    pub(super) fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.what),
            None => self.what.to_owned(),
        }
    }
}

/// The copy of libnccl that is named, else the first that is found.
pub(super) fn nccl(named: &[PathBuf]) -> Option<Library> {
    let path = find::copies(named).into_iter().next()?;
    let (version, remark) = match Loaded::open(&path) {
        Ok(loaded) => (Some(loaded.version().to_string()), String::new()),
        Err(error) => (None, format!("it does not load here, only its bytes were read: {error}")),
    };
    Some(Library { what: "libnccl", version, files: vec![path], remark })
}

/// PyTorch: what is named (a library, a directory of the package, or a Python that has it), else what
/// the Python environments of this machine hold, else what `python3` finds.
pub(super) fn torch(named: Option<&Path>) -> Result<Option<Library>, String> {
    let package = match named {
        Some(path) if path.is_dir() => Some(path.to_owned()),
        Some(path) if is_library(path) => return Ok(Some(single(path))),
        Some(path) => Some(of_python(path)?),
        None => {
            let found = find::torch_packages().into_iter().next();
            found.or_else(|| of_python(Path::new("python3")).ok())
        }
    };
    package.map(|package| of_package(&package)).transpose()
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.contains(".so") || !path.exists()
}

fn single(path: &Path) -> Library {
    let remark =
        "one library of PyTorch; what its Python sources read was not looked at".to_owned();
    Library { what: "PyTorch", version: None, files: vec![path.to_owned()], remark }
}

/// Asks a Python where its torch is, without importing it.
fn of_python(python: &Path) -> Result<PathBuf, String> {
    const ASK: &str = "import importlib.util as u; s = u.find_spec('torch'); \
                       print(s.submodule_search_locations[0] if s else '')";
    let asked = Command::new(python).args(["-c", ASK]).output();
    let output = asked.map_err(|error| format!("{} does not run: {error}", python.display()))?;
    let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !directory.is_empty() {
        Ok(PathBuf::from(directory))
    } else {
        Err(format!("{} has no torch", python.display()))
    }
}

fn of_package(package: &Path) -> Result<Library, String> {
    let mut files: Vec<PathBuf> =
        TORCH.iter().map(|name| package.join("lib").join(name)).filter(|p| p.is_file()).collect();
    if files.is_empty() {
        return Err(format!("{} has no lib/libtorch_cpu.so", package.display()));
    }
    let python = python_files(&package.join(SOURCES));
    let sources = python.len();
    files.extend(python);
    let version =
        fs::read_to_string(package.join("version.py")).ok().and_then(|text| version(&text));
    let remark = format!("{} libraries and {sources} Python files", files.len() - sources);
    Ok(Library { what: "PyTorch", version, files, remark })
}

/// `__version__ = '2.11.0+cu128'`, perhaps with a type between.
fn version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    let quoted = line.split(['\'', '"']).nth(1)?;
    Version::first(quoted).map(|_| quoted.to_owned())
}

fn python_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(python_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "py") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Gloo as a library of its own, beside PyTorch's or in the system's directories.
pub(super) fn gloo(torch: Option<&Library>) -> Option<Library> {
    let beside = torch.and_then(|torch| torch.files.first()).and_then(|file| {
        let real = fs::canonicalize(file).ok()?;
        Some(real.parent()?.join(GLOO))
    });
    let path = beside.filter(|path| path.is_file()).or_else(|| find::in_system(GLOO))?;
    Some(Library { what: "gloo", version: None, files: vec![path], remark: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a PyTorch package.
    fn package() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::create_dir_all(root.join("distributed/elastic")).unwrap();
        fs::write(root.join("lib/libtorch_cpu.so"), b"\x7fELF\0TORCH_A\0").unwrap();
        fs::write(root.join("distributed/elastic/x.py"), "os.environ.get('TORCH_B')\n").unwrap();
        fs::write(root.join("version.py"), "__all__ = []\n__version__ = '2.11.0+cu128'\n").unwrap();
        directory
    }

    #[test]
    fn a_package_is_its_libraries_and_its_python_sources() {
        let directory = package();
        let library = torch(Some(directory.path())).unwrap().unwrap();
        assert_eq!(library.title(), "PyTorch 2.11.0+cu128");
        assert_eq!(library.remark, "1 libraries and 1 Python files");
        let found = contained(&library, &["TORCH_A", "TORCH_B", "TORCH_C"]).unwrap();
        assert_eq!(found, [Trace::Whole, Trace::Whole, Trace::Absent]);
    }

    #[test]
    fn what_is_no_pytorch_is_refused_and_a_library_alone_is_taken_as_such() {
        let empty = tempfile::tempdir().unwrap();
        assert!(torch(Some(empty.path())).unwrap_err().contains("has no lib/libtorch_cpu.so"));
        let directory = package();
        let single = torch(Some(&directory.path().join("lib/libtorch_cpu.so"))).unwrap().unwrap();
        assert_eq!((single.files.len(), single.number()), (1, None));
        let gone = torch(Some(&empty.path().join("libtorch_cpu.so"))).unwrap().unwrap();
        assert!(contained(&gone, &["TORCH_A"]).is_err());
    }
}
