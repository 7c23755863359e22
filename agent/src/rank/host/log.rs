//! Log lines in NCCL's manner, each marked as ours, governed by NCCL_DEBUG and NCCL_DEBUG_FILE.

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write,
    process,
    sync::Mutex,
};

use super::super::backend::Op;

/// Where lines go and which.
#[derive(Debug)]
pub(super) struct Log {
    info: bool,
    /// Whether each operation is logged at INFO.
    operations: bool,
    warn: bool,
    file: Option<Mutex<File>>,
}

impl Log {
    pub(super) fn from_env() -> Log {
        let level = env::var("NCCL_DEBUG").unwrap_or_default().to_uppercase();
        let info = matches!(level.as_str(), "INFO" | "TRACE");
        let file = env::var("NCCL_DEBUG_FILE").ok().and_then(|name| {
            // NCCL knows %h as well; a stand-in's ranks are all on one host.
            let name = name.replace("%p", &process::id().to_string());
            OpenOptions::new().create(true).append(true).open(name).ok().map(Mutex::new)
        });
        let operations = info && has_operations(&env::var("NCCL_DEBUG_SUBSYS").unwrap_or_default());
        Log { info, operations, warn: info || level == "WARN", file }
    }

    /// An operation is enqueued. NCCL says so only where asked for COLL.
    pub(super) fn operation(&self, op: &Op) {
        if self.operations {
            let Op { number, collective, bytes, .. } = op;
            self.write("INFO", &format!("{collective}: opCount {number:x} bytes {bytes}"));
        }
    }

    pub(super) fn warn(&self, message: &str) {
        if self.warn {
            self.write("WARN", message);
        }
    }

    pub(super) fn info(&self, message: &str) {
        if self.info {
            self.write("INFO", message);
        }
    }

    fn write(&self, level: &str, message: &str) {
        let line = format!("[host stand-in] pid {} NCCL {level} {message}\n", process::id());
        // A log that cannot be written (a full disk) must not change what the rank does.
        let _written = match &self.file {
            Some(file) => file
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .write_all(line.as_bytes()),
            // As NCCL: standard output.
            None => std::io::stdout().write_all(line.as_bytes()),
        };
    }
}

/// Whether a list of NCCL_DEBUG_SUBSYS has COLL; `^` in front inverts it (NCCL 2.30.7, src/debug.cc).
fn has_operations(list: &str) -> bool {
    let (inverted, list) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let named = list
        .split(',')
        .map(str::trim)
        .any(|part| part.eq_ignore_ascii_case("COLL") || part.eq_ignore_ascii_case("ALL"));
    named != inverted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_logged_only_where_coll_is_asked_for() {
        for (list, want) in [
            ("", false),
            ("INIT,BOOTSTRAP,ENV", false),
            ("INIT,COLL", true),
            ("all", true),
            ("^COLL", false),
            ("^INIT", true),
        ] {
            assert_eq!(has_operations(list), want, "{list:?}");
        }
    }
}
