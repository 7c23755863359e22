//! `ringbreaker press-memory`: the helper process that takes memory in a rank's cgroup.
//!
//! It says `ready spared`, or `ready exposed` where the kernel does not let it out of the OOM killer's
//! choice, then reads `take BYTES` lines, takes that much more and answers `holds BYTES`. It ends when
//! its standard input closes, and the kernel ends it with its agent.

use std::io::{self, BufRead, Write};

use crate::sys::{oom, thread};

/// Memory is taken in pieces of this size, so that the answer to a shortage is quick.
const PIECE: u64 = 1 << 20;

/// What a presser says that the OOM killer passes over.
pub(super) const SPARED: &str = "spared";

/// Runs until standard input closes; returns the exit code.
pub fn press() -> i32 {
    // Among busy ranks the way to the limit would take its turn, and the job could end before it.
    drop(thread::urgent());
    // The rank's program is ours too. While its pages can be dropped and read again, the kernel does
    // that in turn with the rank, for as long as it runs, and the OOM killer is not called.
    drop(oom::keep_program_in_memory());
    match serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("press-memory: {error}");
            1
        }
    }
}

fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let word = if oom::spare_this_process().is_ok() { SPARED } else { "exposed" };
    writeln!(output, "ready {word}")?;
    let mut held: Vec<Vec<u8>> = Vec::new();
    for line in input.lines() {
        let line = line?;
        let more: u64 = line
            .strip_prefix("take ")
            .and_then(|bytes| bytes.parse().ok())
            .ok_or_else(|| io::Error::other(format!("{line:?} is no command")))?;
        let mut left = more;
        while left > 0 {
            let piece = left.min(PIECE);
            // Written to, page by page: memory that is only promised is not charged.
            held.push(vec![0x5a; usize::try_from(piece).map_err(io::Error::other)?]);
            left -= piece;
        }
        let total: usize = held.iter().map(Vec::len).sum();
        writeln!(output, "holds {total}")?;
    }
    Ok(())
}
