//! The rank process: one program for every backend.
//!
//! - [`backend`]: what a backend must offer, with [`host`] and [`nccl`] behind it;
//! - [`data`]: what buffers hold and what must come out of an operation;
//! - `workload`: the main thread, from the unique id to the last operation;
//! - `watchdog` and `life`: deadlines, error handling, who noticed what, who aborts;
//! - [`blackbox`]: the record that outlives SIGKILL;
//! - [`protocol`]: what agent and rank say to each other.

pub mod backend;
pub mod blackbox;
pub mod checkpoint;
pub mod code;
pub mod data;
pub mod host;
mod life;
mod link;
pub mod nccl;
pub mod protocol;
mod watchdog;
mod workload;

use std::{
    fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use nix::sys::resource::{Resource, setrlimit};
use ringbreaker_scenarios::{
    event::What,
    words::{Backend, Detector, Phase},
};

use self::{
    backend::{CallError, Library},
    blackbox::BlackBox,
    life::{Finding, Life},
    link::Link,
    protocol::{EXIT_AFTER_ERROR, EXIT_HARNESS, FromRank, RankSpec},
    workload::Workload,
};

/// Runs the rank that the spec file describes; returns the exit code. Called by the hidden
/// subcommand `rank` in a process of its own that an agent started.
pub fn main(spec: &Path) -> i32 {
    match prepare(spec) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rank: {error}");
            EXIT_HARNESS
        }
    }
}

/// A rank that could not begin.
#[derive(Debug, thiserror::Error)]
enum RankError {
    #[error("failed to read the spec: {source}")]
    Read {
        #[source]
        source: std::io::Error,
    },
    #[error("failed to understand the spec: {source}")]
    Understand {
        #[source]
        source: serde_json::Error,
    },
    #[error("failed to set up: {source}")]
    SetUp {
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    BlackBox(#[from] blackbox::BlackBoxError),
}

fn prepare(path: &Path) -> Result<i32, RankError> {
    let text = fs::read(path).map_err(|source| RankError::Read { source })?;
    let spec: RankSpec =
        serde_json::from_slice(&text).map_err(|source| RankError::Understand { source })?;
    // Modes teardown and skip-cleanup end in SIGABRT on purpose; a core file would be litter.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|e| RankError::SetUp { source: e.into() })?;
    let set_up = |source| RankError::SetUp { source };

    let told: Arc<OnceLock<Arc<Life>>> = Arc::default();
    let on_abort = {
        let told = Arc::clone(&told);
        move || {
            if let Some(life) = told.get() {
                coordinated_abort(life);
            }
        }
    };
    let (link, commands) = Link::open(spec.rank, on_abort).map_err(set_up)?;
    let life = Arc::new(Life::new(spec.watchdog.clone(), link));
    let _first = told.set(Arc::clone(&life));
    let black_box = spec
        .blackbox
        .as_deref()
        .map(|file| BlackBox::create(file, spec.blackbox_ops))
        .transpose()?;

    let library = match open(&spec) {
        Ok(library) => library,
        Err(error) => {
            life.detected(&Finding::call(&error));
            return Ok(EXIT_AFTER_ERROR);
        }
    };
    life.link().observe(What::Stack { versions: library.versions() });
    life.link().observe(What::PhaseEntered { phase: Phase::BeforeInit });
    life.link().say(&FromRank::Ready { clock: crate::sys::clock::now() });
    if !spec.watchdog.blocking_wait {
        watchdog::start(&life).map_err(set_up)?;
    }
    let library = library.as_ref();
    let workload = Workload { spec: &spec, life: &life, library, commands: &commands, black_box };
    Ok(workload.run())
}

fn open(spec: &RankSpec) -> Result<Arc<dyn Library>, CallError> {
    match spec.backend {
        Backend::Host => Ok(Arc::new(host::HostLibrary::from_env())),
        Backend::Nccl => nccl::open(spec.nccl.as_deref(), spec.gpu),
    }
}

/// The controller saw the first sign of trouble on another rank.
fn coordinated_abort(life: &Life) {
    life.detected(&Finding {
        detector: Detector::Controller,
        code: None,
        message: "the controller told all ranks to abort".to_owned(),
    });
    if life.abort() {
        life.let_leave();
    }
}
