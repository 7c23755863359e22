//! Log lines in NCCL's manner, each marked as ours, governed by NCCL_DEBUG and NCCL_DEBUG_FILE.

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write,
    process,
    sync::Mutex,
};

/// Where lines go and which.
#[derive(Debug)]
pub(super) struct Log {
    info: bool,
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
        Log { info, warn: info || level == "WARN", file }
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
