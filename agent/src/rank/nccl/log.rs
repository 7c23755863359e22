//! What NCCL's own log tells about transports.

use std::{collections::BTreeSet, env, fs, process};

use nix::sys::utsname::uname;

/// The transports that NCCL says it has connected, such as `NET/Socket` or `P2P + SHM`; none: the
/// log does not say. NCCL tells at NCCL_DEBUG=INFO only, one line a channel and peer:
/// `Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0` (2.28.3 and 2.28.9).
pub(super) fn transport() -> Option<String> {
    let name = env::var("NCCL_DEBUG_FILE").ok()?;
    let host = uname().ok().map(|name| name.nodename().to_string_lossy().into_owned());
    let path = expand(&name, host.as_deref().unwrap_or_default(), process::id());
    // Reading a pipe would take the lines from whoever keeps them.
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    // A log may hold anything; only what is text counts.
    named(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

/// NCCL_DEBUG_FILE's placeholders: %h is the host name up to its first dot, %p the process id, %%
/// a percent sign (debug.cc of 2.28).
fn expand(name: &str, host: &str, pid: u32) -> String {
    let mut path = String::new();
    let mut rest = name.chars();
    while let Some(next) = rest.next() {
        match (next, if next == '%' { rest.next() } else { None }) {
            ('%', Some('h')) => path.push_str(host.split('.').next().unwrap_or_default()),
            ('%', Some('p')) => path.push_str(&pid.to_string()),
            ('%', Some('%')) | ('%', None) => path.push('%'),
            ('%', Some(other)) => path.extend(['%', other]),
            (other, _) => path.push(other),
        }
    }
    path
}

/// NVLS has channels of its own, which no `via` tells of (NCCL source 2.30.7, src/init.cc).
const NVLS_CONNECTED: &str = "Connected NVLS tree";

fn named(log: &str) -> Option<String> {
    let mut found = BTreeSet::new();
    for line in log.lines().filter(|line| line.contains("Channel ")) {
        let Some((_, way)) = line.split_once(" via ") else { continue };
        let word = way.split_whitespace().next().unwrap_or_default();
        let mut parts = word.split('/');
        match (parts.next(), parts.next()) {
            // The network's name matters, its device number does not.
            (Some("NET"), Some(network)) => found.insert(format!("NET/{network}")),
            (Some(kind @ ("P2P" | "SHM")), _) => found.insert(kind.to_owned()),
            _ => false,
        };
    }
    if log.lines().any(|line| line.contains(NVLS_CONNECTED)) {
        found.insert("NVLS".to_owned());
    }
    (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_named_once_and_without_their_device_numbers() {
        let log = "\
            host:1:2 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n\
            host:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n\
            host:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/1\n\
            host:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n\
            host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n";
        assert_eq!(named(log).as_deref(), Some("NET/Socket + P2P + SHM"));
        assert_eq!(named("NCCL WARN something went away via a door"), None);
        assert_eq!(named(""), None);
    }

    #[test]
    fn the_placeholders_of_the_log_file_are_nccls() {
        assert_eq!(expand("/l/%h.%p.log", "node7.example", 42), "/l/node7.42.log");
        assert_eq!(expand("/l/100%%", "h", 1), "/l/100%");
        assert_eq!(expand("/l/%x%", "h", 1), "/l/%x%");
    }

    #[test]
    fn nvls_is_told_by_a_line_of_its_own() {
        let log = "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n\
                   h:1:1 [0] NCCL INFO Connected NVLS tree\n";
        assert_eq!(named(log).as_deref(), Some("NVLS + P2P"));
    }
}
