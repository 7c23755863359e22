//! The lines of a rank's log that bear on the result.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// How much of the end of a log is looked at: failures are said last.
const TAIL: u64 = 256 << 10;
/// How many lines a log may contribute.
const MOST_LINES: usize = 20;
/// A line longer than this is cut.
const MOST_CHARS: usize = 500;
/// What makes a line decisive, in lower case.
const SIGNS: &[&str] =
    &["warn", "error", "abort", "timed out", "timeout", "panicked", "fatal", "failed", "killed"];

/// The newest decisive lines of a log file, in the order of the file; empty when there is none.
pub(super) fn decisive_lines(path: &Path) -> io::Result<Vec<String>> {
    Ok(decisive(&tail(path)?))
}

/// The last lines of a log as one, for refusals.
pub(super) fn last_words(path: &Path) -> String {
    let text = tail(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.split_at_checked(lines.len().saturating_sub(3)) {
        Some((_, last)) if !last.is_empty() => cut(&last.join("; ")),
        _ => format!("it said nothing in {}", path.display()),
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        other => other?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is torn when the file is longer than what was read.
    let whole =
        if length > TAIL { text.split_once('\n').map(|(_, rest)| rest.to_owned()) } else { None };
    Ok(whole.unwrap_or(text))
}

fn decisive(text: &str) -> Vec<String> {
    let bears = |line: &&str| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let mut lines: Vec<String> =
        text.lines().rev().filter(bears).take(MOST_LINES).map(cut).collect();
    lines.reverse();
    lines
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_bear_on_the_result_are_kept_in_their_order() {
        let text = "NCCL INFO Bootstrap: Using eth0\n\
                    NCCL WARN Call to connect failed\n\
                    all fine\n\
                    [watchdog] op 7 timed out after 2s\n";
        assert_eq!(
            decisive(text),
            ["NCCL WARN Call to connect failed", "[watchdog] op 7 timed out after 2s"]
        );
    }

    #[test]
    fn of_many_lines_the_newest_are_kept_and_long_ones_cut() {
        let text: String =
            (0..100).map(|n| format!("error {n} {}\n", "x".repeat(2 * MOST_CHARS))).collect();
        let lines = decisive(&text);
        assert_eq!(lines.len(), MOST_LINES);
        assert!(lines[0].starts_with("error 80 ") && lines[19].starts_with("error 99 "));
        assert!(lines.iter().all(|line| line.ends_with("...")));
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rank0.log");
        let filler = "all fine\n".repeat(60_000);
        std::fs::write(&path, format!("an early error\n{filler}a late error\n")).unwrap();
        assert_eq!(decisive_lines(&path).unwrap(), ["a late error"]);
        assert!(last_words(&path).ends_with("a late error"));
    }

    #[test]
    fn a_log_that_does_not_exist_says_nothing() {
        let path = Path::new("/nonexistent/rank0.log");
        assert!(decisive_lines(path).unwrap().is_empty());
        assert!(last_words(path).contains("said nothing"));
    }
}
