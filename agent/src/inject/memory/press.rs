//! `ringbreaker press-memory`: the helper process that takes memory in a rank's cgroup.
//!
//! It says `ready spared`, or `ready exposed` where the kernel does not let it out of the OOM killer's
//! choice, then reads lines: `take BYTES` takes that much more, `take BYTES at RATE` does so steadily, that
//! much a second; the answer is `holds BYTES`. It ends when its standard input closes, and the kernel
//! ends it with its agent.

use std::{
    io::{self, BufRead, Write},
    thread::sleep,
    time::{Duration, Instant},
};

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
        let (more, rate) =
            order(&line).ok_or_else(|| io::Error::other(format!("{line:?} is no command")))?;
        let begun = Instant::now();
        let mut taken = 0;
        while taken < more {
            let piece = (more - taken).min(PIECE);
            // Written to, page by page: memory that is only promised is not charged.
            held.push(vec![0x5a; usize::try_from(piece).map_err(io::Error::other)?]);
            taken += piece;
            if let Some(rate) = rate {
                let due = begun + Duration::from_secs_f64(taken as f64 / rate as f64);
                sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        let total: usize = held.iter().map(Vec::len).sum();
        writeln!(output, "holds {total}")?;
    }
    Ok(())
}

/// How much to take, and how much of it a second.
fn order(line: &str) -> Option<(u64, Option<u64>)> {
    match line.strip_prefix("take ")?.split_once(" at ") {
        None => Some((line.strip_prefix("take ")?.parse().ok()?, None)),
        Some((more, rate)) => Some((more.parse().ok()?, Some(rate.parse().ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_how_much_and_how_fast() {
        assert_eq!(order("take 7"), Some((7, None)));
        assert_eq!(order("take 7 at 2"), Some((7, Some(2))));
        for wrong in ["take", "take x", "take 7 at", "hold 7", ""] {
            assert_eq!(order(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_rate_spreads_what_is_taken_over_its_time() {
        let begun = Instant::now();
        let mut said = Vec::new();
        serve(&b"take 4194304 at 16777216\n"[..], &mut said).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(250), "taken faster than asked for");
        assert!(String::from_utf8(said).unwrap().ends_with("holds 4194304\n"));
    }
}
