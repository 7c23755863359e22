//! Names a set of rows by as few settings as tell it from the others.

use std::collections::{BTreeMap, BTreeSet};

/// More rows than this are counted, not listed.
const LISTED: usize = 3;

/// The swept settings of one row.
pub(super) type Settings = BTreeMap<String, String>;

/// Describes `chosen` within `all`, to follow a statement: `with error_handling = none`,
/// `whatever the settings`. Empty when there is only one row.
pub(super) fn which(chosen: &[&Settings], all: &[&Settings]) -> String {
    if all.len() <= 1 {
        return String::new();
    }
    if all.iter().all(|row| chosen.contains(row)) {
        return "whatever the settings".to_owned();
    }
    let text = by_values(chosen, all).unwrap_or_else(|| listed(chosen));
    format!("with {text}")
}

/// The values of one setting that, together, are exactly the chosen rows; else of two settings.
fn by_values(chosen: &[&Settings], all: &[&Settings]) -> Option<String> {
    let names: BTreeSet<&String> = all.iter().flat_map(|row| row.keys()).collect();
    let one = names.iter().find_map(|name| exact(&[name], chosen, all));
    one.or_else(|| {
        names.iter().enumerate().find_map(|(at, first)| {
            names.iter().skip(at + 1).find_map(|second| exact(&[first, second], chosen, all))
        })
    })
}

/// The chosen rows as combinations of these settings, if no row outside has such a combination.
fn exact(names: &[&String], chosen: &[&Settings], all: &[&Settings]) -> Option<String> {
    let project =
        |row: &Settings| names.iter().map(|name| row.get(*name).cloned()).collect::<Vec<_>>();
    let inside: BTreeSet<_> = chosen.iter().map(|row| project(row)).collect();
    let is_exact = all.iter().all(|row| inside.contains(&project(row)) == chosen.contains(row));
    if !is_exact || inside.len() > LISTED {
        return None;
    }
    let texts: Vec<String> = inside
        .iter()
        .map(|values| {
            let pairs = names.iter().zip(values).filter_map(|(name, value)| {
                value.as_ref().map(|value| format!("{name} = {value}"))
            });
            pairs.collect::<Vec<_>>().join(", ")
        })
        .collect();
    Some(texts.join(" or "))
}

fn listed(rows: &[&Settings]) -> String {
    if rows.len() > LISTED {
        return format!("{} combinations of settings", rows.len());
    }
    let label = |row: &&Settings| {
        row.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    };
    rows.iter().map(label).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn rows_are_named_by_the_fewest_settings_that_single_them_out() {
        let rows = [
            row(&[("mode", "none"), ("timeout", "2s")]),
            row(&[("mode", "none"), ("timeout", "5s")]),
            row(&[("mode", "teardown"), ("timeout", "2s")]),
            row(&[("mode", "teardown"), ("timeout", "5s")]),
        ];
        let all: Vec<&Settings> = rows.iter().collect();
        for (chosen, text) in [
            (vec![0, 1], "with mode = none"),
            (vec![0, 2], "with timeout = 2s"),
            (vec![3], "with mode = teardown, timeout = 5s"),
            (vec![0, 3], "with mode = none, timeout = 2s or mode = teardown, timeout = 5s"),
            (vec![0, 1, 2, 3], "whatever the settings"),
        ] {
            let chosen: Vec<&Settings> = chosen.into_iter().map(|at: usize| &rows[at]).collect();
            assert_eq!(which(&chosen, &all), text);
        }
        assert_eq!(which(&all[..1], &all[..1]), "");
    }
}
