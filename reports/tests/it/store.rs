//! The store: what is written is read, also by another process, also after a killed writer.

use std::{fs, thread};

use ringbreaker_reports::{
    history::CaseHistory,
    store::{FILE_NAME, Store, StoreError},
};
use ringbreaker_scenarios::{case::CasePlan, event::EndReason};
use tempfile::TempDir;

use crate::story::{header, kill_noticed, run};

fn case(index: u32, because: EndReason) -> CaseHistory {
    kill_noticed().index(index).ended(1650, because)
}

fn plans(count: u32) -> Vec<CasePlan> {
    (0..count).map(|index| case(index, EndReason::RanksGone).plan).collect()
}

fn begun(count: u32) -> (TempDir, Store) {
    let dir = TempDir::new().expect("a test directory that can be used");
    let mut store = Store::open(dir.path()).expect("a test directory that can be used");
    store.begin_run(&header(), &plans(count)).expect("a test directory that can be used");
    (dir, store)
}

const RUN: &str = "20261201-051530-3fa2";

#[test]
fn a_run_is_read_as_it_was_written() {
    let (dir, mut store) = begun(2);
    let case = case(0, EndReason::RanksGone);
    store.append_case(RUN, &case).unwrap();
    drop(store);
    let loaded = Store::open(dir.path()).unwrap().load(RUN).unwrap();
    assert_eq!(loaded.header, header());
    assert_eq!(loaded.cases, [case]);
    assert_eq!(loaded.pending, plans(2)[1..]);
}

#[test]
fn pending_are_the_cases_without_an_attempt_that_counts() {
    let (_dir, mut store) = begun(4);
    store.append_case(RUN, &case(0, EndReason::RanksGone)).unwrap();
    store.append_case(RUN, &case(1, EndReason::Interrupted)).unwrap();
    store.append_case(RUN, &case(2, EndReason::AgentLost)).unwrap();
    let pending = |store: &Store| -> Vec<u32> {
        store.pending(RUN).unwrap().iter().map(|plan| plan.index).collect()
    };
    assert_eq!(pending(&store), [1, 2, 3]);
    assert_eq!(store.attempts(RUN, 1).unwrap(), 1);
    let again = CaseHistory { attempt: 2, ..case(1, EndReason::Cap) };
    store.append_case(RUN, &again).unwrap();
    assert_eq!(pending(&store), [2, 3]);
    let loaded = store.load(RUN).unwrap();
    assert_eq!(loaded.cases[1], again, "the last attempt is the one that is reported");
}

#[test]
fn runs_are_listed_the_latest_first() {
    let (_dir, mut store) = begun(1);
    let mut later = header();
    later.id = "20261202-000000-0000".into();
    later.started = "2026-12-02T00:00:00Z".into();
    later.ended = None;
    store.begin_run(&later, &plans(2)).unwrap();
    store.append_case(RUN, &case(0, EndReason::Cap)).unwrap();
    assert_eq!(store.latest().unwrap().as_deref(), Some("20261202-000000-0000"));
    let listed: Vec<(String, u32, u32)> =
        store.runs().unwrap().into_iter().map(|r| (r.header.id, r.planned, r.finished)).collect();
    assert_eq!(listed, [("20261202-000000-0000".into(), 2, 0), (RUN.into(), 1, 1)]);
    store.finish_run("20261202-000000-0000", "2026-12-02T00:01:00Z").unwrap();
    let loaded = store.load("20261202-000000-0000").unwrap();
    assert_eq!(loaded.header.ended.as_deref(), Some("2026-12-02T00:01:00Z"));
}

#[test]
fn what_is_there_already_and_what_is_not_are_refused() {
    let (_dir, mut store) = begun(1);
    store.append_case(RUN, &case(0, EndReason::Cap)).unwrap();
    let refused = |error: StoreError| error.to_string();
    assert!(refused(store.begin_run(&header(), &[]).unwrap_err()).contains("is stored already"));
    let twice = store.append_case(RUN, &case(0, EndReason::Cap)).unwrap_err();
    assert!(refused(twice).contains("attempt 1 at case 0"));
    let strange = store.append_case(RUN, &case(9, EndReason::Cap)).unwrap_err();
    assert!(refused(strange).contains("has no case 9"));
    assert!(refused(store.load("nothing").unwrap_err()).contains("`ringbreaker runs` lists"));
}

#[test]
fn two_open_stores_see_each_other() {
    let (dir, mut writer) = begun(2);
    let reader = Store::open(dir.path()).unwrap();
    assert_eq!(reader.pending(RUN).unwrap().len(), 2);
    writer.append_case(RUN, &case(0, EndReason::Cap)).unwrap();
    assert_eq!(reader.pending(RUN).unwrap().len(), 1);
}

#[test]
fn many_writers_open_a_new_store_at_once_and_lose_nothing() {
    let dir = TempDir::new().unwrap();
    thread::scope(|scope| {
        for number in 0..8 {
            let dir = dir.path();
            scope.spawn(move || {
                let mut store = Store::open(dir).unwrap();
                let mut header = header();
                header.id = format!("run-{number}");
                store.begin_run(&header, &plans(3)).unwrap();
                for index in 0..3 {
                    store.append_case(&header.id, &case(index, EndReason::Cap)).unwrap();
                }
            });
        }
    });
    let runs = Store::open(dir.path()).unwrap().runs().unwrap();
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run.finished == 3));
}

/// A writer that is killed leaves the file and its log as they are at that moment. Whatever part of
/// the log made it to the disk, every case whose append had returned before is there.
#[test]
fn a_log_torn_at_any_place_loses_at_most_the_case_in_flight() {
    let (dir, mut store) = begun(3);
    store.append_case(RUN, &case(0, EndReason::Cap)).unwrap();
    let log = dir.path().join(format!("{FILE_NAME}-wal"));
    let safe = fs::metadata(&log).unwrap().len() as usize;
    store.append_case(RUN, &case(1, EndReason::Cap)).unwrap();
    let database = fs::read(dir.path().join(FILE_NAME)).unwrap();
    let whole = fs::read(&log).unwrap();
    assert!(whole.len() > safe, "the second case must be in the log");
    let mut seen = std::collections::BTreeSet::new();
    for cut in (safe..=whole.len()).step_by(997).chain([whole.len()]) {
        let torn = TempDir::new().unwrap();
        fs::write(torn.path().join(FILE_NAME), &database).unwrap();
        fs::write(torn.path().join(format!("{FILE_NAME}-wal")), &whole[..cut]).unwrap();
        let loaded = Store::open(torn.path()).unwrap().load(RUN).unwrap();
        assert_eq!(loaded.cases[0], case(0, EndReason::Cap), "cut at {cut}");
        seen.insert(loaded.cases.len());
    }
    assert_eq!(seen, [1, 2].into(), "both with and without the case in flight");
}

#[test]
fn a_file_of_a_newer_release_is_refused_and_unharmed() {
    let (dir, store) = begun(1);
    drop(store);
    let path = dir.path().join(FILE_NAME);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("use the newer ringbreaker"), "{error}");
    let raw = rusqlite::Connection::open(&path).unwrap();
    let runs: u32 = raw.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(runs, 1);
}

#[test]
fn a_file_that_is_no_store_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join(FILE_NAME), "this is not a database, it is a text of some length")
        .unwrap();
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains(FILE_NAME) && error.contains("cannot be used"), "{error}");
}

#[test]
fn the_words_of_a_run_survive_the_store_exactly() {
    let (_dir, mut store) = begun(1);
    let mut case = case(0, EndReason::Cap);
    case.plan.index = 0;
    store.append_case(RUN, &case).unwrap();
    let direct = ringbreaker_reports::report::RunReport::from(run(vec![case]));
    let stored = ringbreaker_reports::report::RunReport::from(store.load(RUN).unwrap());
    assert_eq!(direct, stored);
}
