//! The tables, and the steps that lead from each older format to the present one.
//!
//! The format's number is SQLite's `user_version`. A step is never edited once released; a change
//! is one more step at the end.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// Step N leads from format N to N + 1.
const STEPS: &[&str] = &[
    // Format 1. Plans, headers and events are JSON, because they are nested and never joined on;
    // what queries need beside them is a column.
    "CREATE TABLE run (
         id      TEXT PRIMARY KEY,
         started TEXT NOT NULL,
         header  TEXT NOT NULL
     );
     CREATE TABLE plan (
         run  TEXT NOT NULL REFERENCES run (id),
         idx  INTEGER NOT NULL,
         plan TEXT NOT NULL,
         PRIMARY KEY (run, idx)
     ) WITHOUT ROWID;
     CREATE TABLE attempt (
         run     TEXT NOT NULL,
         idx     INTEGER NOT NULL,
         attempt INTEGER NOT NULL,
         counts  INTEGER NOT NULL,
         events  TEXT NOT NULL,
         PRIMARY KEY (run, idx, attempt),
         FOREIGN KEY (run, idx) REFERENCES plan (run, idx)
     );",
];

/// How long a statement waits for another process's transaction; transactions are short.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// Opens the file, in the present format.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let mut connection = connect(path).map_err(|source| StoreError::at(path, source))?;
    let found = version(&connection).map_err(|source| StoreError::at(path, source))?;
    let known = STEPS.len() as u32;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    if found < known {
        migrate(&mut connection).map_err(|source| StoreError::at(path, source))?;
    }
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    // The write-ahead log lets others read while a case is written.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With a write-ahead log, NORMAL can lose the last commits on power failure, never the file;
    // FULL keeps a case once `append_case` has returned. A case takes seconds, a sync milliseconds.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have done it meanwhile.
    let found = version(&tx)? as usize;
    for step in STEPS.iter().skip(found) {
        tx.execute_batch(step)?;
    }
    if found < STEPS.len() {
        tx.pragma_update(None, "user_version", STEPS.len() as u32)?;
    }
    tx.commit()
}
