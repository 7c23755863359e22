//! The matrix: the product of all settings with several values.

use super::Values;
use crate::scenario::{Scenario, Setting};

/// One choice of every setting.
pub(super) struct Row {
    /// Every setting.
    pub(super) settings: Values,
    /// Those with several values: they tell this row from others.
    pub(super) swept: Values,
}

/// How many cases there are, without making them.
pub(super) fn size(scenario: &Scenario, repetitions: u32) -> u128 {
    let columns = scenario.columns().len() as u128;
    let rows =
        scenario.settings.iter().fold(1u128, |n, s| n.saturating_mul(s.values.len() as u128));
    rows.saturating_mul(columns).saturating_mul(u128::from(repetitions))
}

/// The rows, the setting that the file names first changing slowest.
pub(super) fn rows(settings: &[Setting]) -> Vec<Row> {
    let count: usize = settings.iter().map(|s| s.values.len()).product();
    (0..count).map(|number| row(settings, number)).collect()
}

/// The row of this number: the number's digits, in a mixed base, choose the values.
fn row(settings: &[Setting], mut number: usize) -> Row {
    let mut row = Row { settings: Values::new(), swept: Values::new() };
    for setting in settings.iter().rev() {
        let value = &setting.values[number % setting.values.len()];
        number /= setting.values.len();
        row.settings.insert(setting.name.clone(), value.clone());
        if setting.is_swept() {
            row.swept.insert(setting.name.clone(), value.clone());
        }
    }
    row
}
