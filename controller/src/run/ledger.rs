//! The store of runs, off the event loop's thread.
//!
//! Every write is one transaction and has reached the disk when the call returns.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use ringbreaker_reports::{
    history::{CaseHistory, RunHeader, RunHistory},
    store::{Store, StoreError},
};
use ringbreaker_scenarios::case::CasePlan;

use crate::error::{Error, Expected, Internal};

/// The store, shared with the threads that wait for the disk.
#[derive(Clone)]
pub(crate) struct Ledger {
    store: Arc<Mutex<Store>>,
}

impl Ledger {
    /// Opens the store in this directory, making both where they are missing.
    pub(crate) async fn open(dir: &Path) -> Result<Ledger, Error> {
        let dir: PathBuf = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || Store::open(&dir)).await;
        let store = opened
            .map_err(|_| Internal::Panicked { doing: "opening the store" })?
            .map_err(|e| Expected::Store { source: Box::new(e) })?;
        Ok(Ledger { store: Arc::new(Mutex::new(store)) })
    }

    /// Writes down that a run begins, with its whole plan.
    pub(crate) async fn begin(&self, header: RunHeader, plans: Vec<CasePlan>) -> Result<(), Error> {
        self.with("begin a run", move |store| store.begin_run(&header, &plans)).await
    }

    /// Writes down one attempt at a case, in one transaction.
    pub(crate) async fn append(&self, run: &str, case: CaseHistory) -> Result<(), Error> {
        let run = run.to_owned();
        self.with("append a case", move |store| store.append_case(&run, &case)).await
    }

    /// Writes down that a run is over.
    pub(crate) async fn finish(&self, run: &str, ended: String) -> Result<(), Error> {
        let run = run.to_owned();
        self.with("finish a run", move |store| store.finish_run(&run, &ended)).await
    }

    /// Everything about a run.
    pub(crate) async fn load(&self, run: &str) -> Result<RunHistory, Error> {
        let run = run.to_owned();
        self.with("load a run", move |store| store.load(&run)).await
    }

    /// What is left to do in a run, each case with the number of its next attempt.
    pub(crate) async fn pending(&self, run: &str) -> Result<Vec<(CasePlan, u32)>, Error> {
        let run = run.to_owned();
        self.with("find the pending cases", move |store| {
            let numbered = |plan: CasePlan| {
                let next = store.attempts(&run, plan.index)? + 1;
                Ok((plan, next))
            };
            store.pending(&run)?.into_iter().map(numbered).collect()
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Error> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut store.lock().unwrap_or_else(PoisonError::into_inner))
        });
        match done.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(e @ StoreError::NoSuchRun { .. })) => {
                Err(Expected::Store { source: Box::new(e) }.into())
            }
            Ok(Err(e)) => Err(Internal::Store { doing, source: Box::new(e) }.into()),
            Err(_) => Err(Internal::Panicked { doing }.into()),
        }
    }
}
