//! Who reads which setting, what it does, and what is in force.
//!
//! - `catalogue`: one entry a name, from embedded files; [`lookup`] answers for one name;
//! - `check`: what is odd about settings as typed, and what would be right; `value`: how readers
//!   understand them;
//! - `unread`: which settings of a case nothing in its backend reads, so that nobody draws
//!   conclusions from a variable without effect. The command line shows the findings before a run,
//!   the agent records them, reports repeat them;
//! - [`ladder`]: every timer in force, in order, and which can never fire;
//! - `of_cases`: what is odd about the settings of planned cases;
//! - `files`: files of NAME=VALUE lines; `in_force`: which of several values holds;
//! - `facts`: what is said about one; `markdown`: docs/settings.md.

mod catalogue;
mod check;
mod facts;
mod files;
mod in_force;
pub mod ladder;
mod markdown;
mod of_cases;
pub(crate) mod own;
mod unread;
mod value;
mod version;

pub use catalogue::{
    Earlier, Given, Kind, Layer, ReadAt, Reader, SettingDoc, all, lookup, older_names,
};
pub use check::{Oddity, Remark, Versions, check, check_one};
pub use facts::facts;
pub use files::{FileProblem, conf_file, env_file};
pub use in_force::{ConfFile, InForce, Origin, Sources, conf_paths};
pub use markdown::document;
pub use of_cases::{lost_timers, odd_values};
pub use unread::{Unread, host_reads, unread};
pub use version::{NotAVersion, Version};

use crate::units::Nanos;

/// The known name nearest to a misspelt one.
pub fn nearest(name: &str) -> Option<&'static str> {
    let known: Vec<&'static str> = all()
        .iter()
        .flat_map(|doc| std::iter::once(&doc.name).chain(&doc.aka))
        .map(String::as_str)
        .collect();
    crate::nearest::nearest(name, &known)
}

/// How long an InfiniBand queue pair waits for an acknowledgement: 4.096 us x 2^n. None for 0, which
/// means for ever, and beyond the 5 bits that the hardware has.
pub fn ib_ack_time(exponent: i64) -> Option<Nanos> {
    (1..=31).contains(&exponent).then(|| Nanos(4096 << exponent))
}
