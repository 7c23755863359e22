//! Which cases of a plan are kept, by number or by a part of their text.

use crate::{case::CasePlan, problem::Collector};

/// Drops every case that no filter is about; a filter that is about none is a problem.
pub(super) fn keep(cases: &mut Vec<CasePlan>, only: &[String], problems: &mut Collector<'_>) {
    if only.is_empty() {
        return;
    }
    for filter in only {
        if !cases.iter().any(|case| is_about(filter, case)) {
            problems.nowhere(
                format!("no case matches {filter:?}"),
                format!(
                    "a case number from 0 to {}, a range such as 0-3, or a part of a column's or \
                     row's name, such as {:?}",
                    cases.len() - 1,
                    cases[0].column
                ),
            );
        }
    }
    cases.retain(|case| only.iter().any(|filter| is_about(filter, case)));
}

/// Whether every word of the filter is about the case.
fn is_about(filter: &str, case: &CasePlan) -> bool {
    let mut words = filter.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word_is_about(word, case))
}

fn word_is_about(word: &str, case: &CasePlan) -> bool {
    if let Ok(number) = word.parse::<u32>() {
        return case.index == number;
    }
    if let Some((Ok(from), Ok(to))) = word.split_once('-').map(|(a, b)| (a.parse(), b.parse())) {
        return (from..=to).contains(&case.index);
    }
    case.column.contains(word) || case.row_label().contains(word)
}
