//! The exit codes: the whole contract with scripts on one screen.
//!
//! `--help`, the README and the program cannot drift apart: the help is written from [`ALL`], and a
//! test compares the README with it.

/// Everything was done and every verdict is `pass`.
pub(crate) const PASS: u8 = 0;
/// Something in ringbreaker itself went wrong.
pub(crate) const INTERNAL: u8 = 1;
/// The command line or a scenario is invalid. (clap uses the same code.)
pub(crate) const USAGE: u8 = 2;
/// At least one case's verdict is `fail`, or `audit` found something.
pub(crate) const FAIL: u8 = 10;
/// No case failed, but for at least one the evidence does not suffice.
pub(crate) const UNKNOWN: u8 = 11;
/// The machine lacks what was asked for.
pub(crate) const LACKING: u8 = 12;
/// A fault could not be undone.
pub(crate) const NOT_HEALED: u8 = 13;
/// The kill switch is engaged: nothing was begun, or what was begun was healed and ended.
pub(crate) const STOPPED: u8 = 14;
/// The user interrupted; everything was healed first.
pub(crate) const INTERRUPTED: u8 = 130;

/// Each code with the sentence that explains it.
pub(crate) const ALL: &[(u8, &str)] = &[
    (PASS, "every verdict is pass"),
    (INTERNAL, "internal error"),
    (USAGE, "the command line or a scenario is invalid"),
    (FAIL, "at least one verdict is fail; audit: something is left"),
    (UNKNOWN, "no verdict is fail, at least one is unknown"),
    (LACKING, "the environment lacks what was asked for"),
    (NOT_HEALED, "a fault could not be healed"),
    (STOPPED, "stopped by `ringbreaker stop`, healed first"),
    (INTERRUPTED, "interrupted, healed first"),
];

/// The codes as the last part of `--help`.
pub(crate) fn help() -> String {
    let lines = ALL.iter().map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
    std::iter::once("Exit codes:".to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_once_and_in_order() {
        let codes: Vec<u8> = ALL.iter().map(|(code, _)| *code).collect();
        let known =
            [PASS, INTERNAL, USAGE, FAIL, UNKNOWN, LACKING, NOT_HEALED, STOPPED, INTERRUPTED];
        assert_eq!(codes, known);
        assert!(codes.is_sorted());
    }
}
