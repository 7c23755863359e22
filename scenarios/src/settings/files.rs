//! Files of NAME=VALUE lines: those that shells and launchers read, and NCCL's own.

use std::collections::BTreeMap;

/// Longest value that NCCL takes over from a file, in bytes.
const CONF_VALUE: usize = 1023;

/// A line of an environment file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text:?} is no NAME=VALUE")]
pub struct FileProblem {
    /// Its number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// A file as shells, docker and systemd take it: `NAME=VALUE`, perhaps with `export` in front and
/// quotes around the value; `#` begins a comment line. A name given twice has its last value.
///
/// # Errors
/// The first line that is neither.
pub fn env_file(text: &str) -> Result<BTreeMap<String, String>, FileProblem> {
    let mut settings = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let content = content.strip_prefix("export ").unwrap_or(content).trim_start();
        let name = |name: &&str| {
            !name.is_empty() && name.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '_')
        };
        match content.split_once('=').filter(|(before, _)| name(before)) {
            Some((name, value)) => settings.insert(name.to_owned(), unquoted(value).to_owned()),
            None => return Err(FileProblem { line: index + 1, text: line.to_owned() }),
        };
    }
    Ok(settings)
}

fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

/// A file as NCCL takes it (setEnvFile in src/misc/param.cc, 2.30): everything before the first `=`
/// of a line is the name, everything behind it the value, spaces and quotes too. Lines that begin
/// with `#` or have no `=` are passed over. Of a name given twice, the first holds: a variable that is
/// set is not set again.
pub fn conf_file(text: &str) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for line in text.split('\n').filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let mut end = value.len().min(CONF_VALUE);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        settings.entry(name.to_owned()).or_insert_with(|| value[..end].to_owned());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_shells_is_read_and_the_line_that_is_wrong_is_named() {
        let text = "# ours\n\nexport NCCL_DEBUG=WARN\nA='x y'\nB=\"\"\nNCCL_DEBUG=INFO\n";
        let read = env_file(text).unwrap();
        let pairs: Vec<_> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "x y"), ("B", ""), ("NCCL_DEBUG", "INFO")]);
        let problem = env_file("A=1\nset -e\n").unwrap_err();
        assert_eq!(problem.to_string(), "line 2: \"set -e\" is no NAME=VALUE");
        assert!(env_file("export A B=1").is_err());
    }

    #[test]
    fn a_file_for_nccl_is_read_as_nccl_does() {
        let text =
            "#NCCL_DEBUG=TRACE\nNCCL_DEBUG=WARN\n NCCL_A = 1\nnothing\nNCCL_DEBUG=INFO\nB=x=y";
        let read = conf_file(text);
        let pairs: Vec<_> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [(" NCCL_A ", " 1"), ("B", "x=y"), ("NCCL_DEBUG", "WARN")]);
        let long = format!("NCCL_X={}", "é".repeat(1000));
        assert_eq!(conf_file(&long)["NCCL_X"].len(), 1022);
    }
}
