//! Suggests the real name nearest to a misspelt one.

/// The known name nearest to a given one, if any is near.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let fold = |text: &str| text.to_ascii_lowercase().replace(['-', ' '], "_");
    let wanted = fold(given);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &fold(name)), *name))
        .filter(|(distance, name)| *distance <= name.len().max(wanted.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// What would be right in place of a given name.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known) {
        // A long list would bury what is probably meant.
        Some(name) if known.len() > 12 => format!("{name:?}"),
        Some(name) => format!("{name:?}; there are: {}", known.join(", ")),
        None => format!("there are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        let known = ["iterations", "interval", "collective"];
        for (given, want) in [
            ("iteration", Some("iterations")),
            ("Interval", Some("interval")),
            ("colective", Some("collective")),
            ("zebra", None),
        ] {
            assert_eq!(nearest(given, &known), want, "{given}");
        }
    }
}
