//! All runs in one SQLite file, `ringbreaker.db`.
//!
//! The controller writes, `ringbreaker report` and friends read, also at the same time from another
//! process (write-ahead log). A case is one transaction: a killed writer loses at most the case in
//! flight. Attempts are only ever added, never changed. The store does not judge; the one thing it
//! decides is whether an attempt counts, because `--resume` needs it: one that was cut short
//! (interrupted, or an agent lost) leaves its case pending.

mod error;
mod schema;

use std::path::{Path, PathBuf};

use ringbreaker_scenarios::{
    case::CasePlan,
    event::{EndReason, What},
};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::{Serialize, de::DeserializeOwned};

pub use error::StoreError;

use crate::history::{CaseHistory, RunHeader, RunHistory};

/// Name of the file within the directory that [`Store::open`] is given.
pub const FILE_NAME: &str = "ringbreaker.db";

/// An open store. Not shared between threads; open it twice instead.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// One line of the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// About the run.
    pub header: RunHeader,
    /// Number of planned cases.
    pub planned: u32,
    /// Number of cases with an attempt that counts.
    pub finished: u32,
}

impl Store {
    /// Opens the store in `dir`, making both where they are missing and bringing an older file up to
    /// date.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made, the file is no store, or a newer ringbreaker wrote it.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        std::fs::create_dir_all(dir)
            .map_err(|source| StoreError::Directory { path: dir.to_owned(), source })?;
        let path = dir.join(FILE_NAME);
        let connection = schema::open(&path)?;
        Ok(Store { connection, path })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the header and the whole plan, before the first case.
    ///
    /// # Errors
    ///
    /// When the id is taken, or the file cannot be written.
    pub fn begin_run(&mut self, header: &RunHeader, plans: &[CasePlan]) -> Result<(), StoreError> {
        let id = header.id.as_str();
        if self.header(id)?.is_some() {
            return Err(StoreError::RunExists { run: id.to_owned() });
        }
        self.write(|tx| {
            tx.execute(
                "INSERT INTO run (id, started, header) VALUES (?1, ?2, ?3)",
                params![id, header.started, to_json(header)],
            )?;
            let mut insert = tx.prepare("INSERT INTO plan (run, idx, plan) VALUES (?1, ?2, ?3)")?;
            for plan in plans {
                insert.execute(params![id, plan.index, to_json(plan)])?;
            }
            Ok(())
        })
    }

    /// Adds an attempt at a case, in one transaction.
    ///
    /// # Errors
    ///
    /// When the run or its case is unknown, this attempt is stored already, or the file cannot be
    /// written.
    pub fn append_case(&mut self, run: &str, case: &CaseHistory) -> Result<(), StoreError> {
        let index = case.plan.index;
        self.require_case(run, index)?;
        let taken: bool = self.query(|c| {
            c.query_row(
                "SELECT EXISTS (SELECT 1 FROM attempt WHERE run = ?1 AND idx = ?2 AND attempt = ?3)",
                params![run, index, case.attempt],
                |row| row.get(0),
            )
        })?;
        if taken {
            let attempt = case.attempt;
            return Err(StoreError::AttemptExists { run: run.to_owned(), case: index, attempt });
        }
        self.write(|tx| {
            tx.execute(
                "INSERT INTO attempt (run, idx, attempt, counts, events) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![run, index, case.attempt, counts(case), to_json(&case.events)],
            )?;
            Ok(())
        })
    }

    /// Notes when the run ended (RFC 3339). A resumed run is finished again, with the later time.
    ///
    /// # Errors
    ///
    /// When the run is unknown, or the file cannot be written.
    pub fn finish_run(&mut self, run: &str, ended: &str) -> Result<(), StoreError> {
        let mut header = self.require_run(run)?;
        header.ended = Some(ended.to_owned());
        self.write(|tx| {
            tx.execute("UPDATE run SET header = ?2 WHERE id = ?1", params![run, to_json(&header)])?;
            Ok(())
        })
    }

    /// All runs, the latest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let rows: Vec<(String, u32, u32)> = self.query(|c| {
            let mut select = c.prepare(
                "SELECT header,
                        (SELECT count(*) FROM plan WHERE plan.run = run.id),
                        (SELECT count(DISTINCT idx) FROM attempt
                          WHERE attempt.run = run.id AND counts)
                   FROM run ORDER BY started DESC, rowid DESC",
            )?;
            select
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()
        })?;
        rows.into_iter()
            .map(|(header, planned, finished)| {
                Ok(RunSummary { header: self.decode(&header)?, planned, finished })
            })
            .collect()
    }

    /// The id of the run that was started last.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn latest(&self) -> Result<Option<String>, StoreError> {
        self.query(|c| {
            c.query_row("SELECT id FROM run ORDER BY started DESC, rowid DESC LIMIT 1", [], |row| {
                row.get(0)
            })
            .optional()
        })
    }

    /// A whole run: the last attempt at each case, and the cases never attempted.
    ///
    /// # Errors
    ///
    /// When the run is unknown, or the file cannot be read.
    pub fn load(&self, run: &str) -> Result<RunHistory, StoreError> {
        let header = self.require_run(run)?;
        let rows: Vec<(String, Option<u32>, Option<String>)> = self.query(|c| {
            let mut select = c.prepare(
                "SELECT plan.plan, attempt.attempt, attempt.events
                   FROM plan LEFT JOIN attempt
                     ON attempt.run = plan.run AND attempt.idx = plan.idx
                    AND attempt.attempt = (SELECT max(attempt) FROM attempt AS later
                                            WHERE later.run = plan.run AND later.idx = plan.idx)
                  WHERE plan.run = ?1 ORDER BY plan.idx",
            )?;
            select
                .query_map([run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()
        })?;
        let mut history = RunHistory { header, cases: Vec::new(), pending: Vec::new() };
        for (plan, attempt, events) in rows {
            let plan: CasePlan = self.decode(&plan)?;
            match (attempt, events) {
                (Some(attempt), Some(events)) => {
                    let events = self.decode(&events)?;
                    history.cases.push(CaseHistory { plan, attempt, events });
                }
                _ => history.pending.push(plan),
            }
        }
        Ok(history)
    }

    /// The cases that `--resume` has to run: never attempted, or only with attempts cut short.
    ///
    /// # Errors
    ///
    /// When the run is unknown, or the file cannot be read.
    pub fn pending(&self, run: &str) -> Result<Vec<CasePlan>, StoreError> {
        self.require_run(run)?;
        let plans: Vec<String> = self.query(|c| {
            let mut select = c.prepare(
                "SELECT plan FROM plan WHERE run = ?1 AND NOT EXISTS (
                     SELECT 1 FROM attempt
                      WHERE attempt.run = plan.run AND attempt.idx = plan.idx AND counts)
                  ORDER BY idx",
            )?;
            select.query_map([run], |row| row.get(0))?.collect::<Result<_, _>>()
        })?;
        plans.iter().map(|plan| self.decode(plan)).collect()
    }

    /// How often a case was attempted: the next attempt's number is one more.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn attempts(&self, run: &str, case: u32) -> Result<u32, StoreError> {
        self.query(|c| {
            c.query_row(
                "SELECT coalesce(max(attempt), 0) FROM attempt WHERE run = ?1 AND idx = ?2",
                params![run, case],
                |row| row.get(0),
            )
        })
    }

    fn header(&self, run: &str) -> Result<Option<RunHeader>, StoreError> {
        let text: Option<String> = self.query(|c| {
            c.query_row("SELECT header FROM run WHERE id = ?1", [run], |row| row.get(0)).optional()
        })?;
        text.map(|text| self.decode(&text)).transpose()
    }

    fn require_run(&self, run: &str) -> Result<RunHeader, StoreError> {
        self.header(run)?
            .ok_or_else(|| StoreError::NoSuchRun { run: run.to_owned(), path: self.path.clone() })
    }

    fn require_case(&self, run: &str, case: u32) -> Result<(), StoreError> {
        self.require_run(run)?;
        let known: bool = self.query(|c| {
            c.query_row(
                "SELECT EXISTS (SELECT 1 FROM plan WHERE run = ?1 AND idx = ?2)",
                params![run, case],
                |row| row.get(0),
            )
        })?;
        if known { Ok(()) } else { Err(StoreError::NoSuchCase { run: run.to_owned(), case }) }
    }

    fn query<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(&self.connection).map_err(|source| StoreError::at(&self.path, source))
    }

    fn write(
        &mut self,
        change: impl FnOnce(&Transaction) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let path = &self.path;
        // Immediate: a second writer waits here, instead of failing at its first statement.
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|tx| change(&tx).and_then(|()| tx.commit()))
            .map_err(|source| StoreError::at(path, source))
    }

    fn decode<T: DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text)
            .map_err(|source| StoreError::Unreadable { path: self.path.clone(), source })
    }
}

/// Whether an attempt settles its case.
fn counts(case: &CaseHistory) -> bool {
    case.events.iter().any(|event| {
        matches!(
            event.what,
            What::Ended {
                because: EndReason::RanksGone
                    | EndReason::Cap
                    | EndReason::Unexposed
                    | EndReason::Unavailable
            }
        )
    })
}

fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("invariant: histories and plans have only string keys")
}
