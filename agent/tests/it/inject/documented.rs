//! docs/faults.md has one row a kind.

use std::{fs, path::Path};

use ringbreaker_scenarios::fault::FaultKind;

#[test]
fn the_page_of_faults_has_one_full_row_for_every_kind_and_no_other() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let text = fs::read_to_string(page).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(kinds, FaultKind::NAMES);
    for row in rows {
        assert!(row.len() == 7 && row.iter().all(|cell| !cell.is_empty()), "{}", row[0]);
    }
}
