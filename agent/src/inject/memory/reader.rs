//! `ringbreaker press-page-cache`: the helper process that fills a rank's cgroup with page cache.
//!
//! It says `ready`, then reads one line, `read FILE at RATE`, and reads that file from its beginning to
//! its end, again and again, that many bytes a second. It ends when its standard input closes, and the
//! kernel ends it with its agent.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

/// What is read at once.
const PIECE: u64 = 1 << 20;

/// Runs until standard input closes; returns the exit code.
pub fn press_page_cache() -> i32 {
    println!("ready");
    let mut lines = io::stdin().lines();
    let Some(Ok(line)) = lines.next() else { return 0 };
    let reading = order(&line).map(|(file, rate)| {
        let file = file.to_owned();
        thread::spawn(move || {
            if let Err(error) = read_for_ever(Path::new(&file), rate) {
                eprintln!("press-page-cache: {file}: {error}");
                process::exit(1);
            }
        })
    });
    if reading.is_none() {
        eprintln!("press-page-cache: {line:?} is no command");
        return 1;
    }
    // Whatever else is said means nothing; the end of it means to leave.
    lines.for_each(drop);
    0
}

fn order(line: &str) -> Option<(&str, u64)> {
    let (file, rate) = line.strip_prefix("read ")?.rsplit_once(" at ")?;
    rate.parse().ok().filter(|rate| *rate > 0).map(|rate| (file, rate))
}

fn read_for_ever(path: &Path, rate: u64) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE as usize];
    let begun = Instant::now();
    let mut total = 0_u64;
    loop {
        let got = file.read(&mut piece)?;
        if got == 0 {
            file.rewind()?;
        }
        total += got as u64;
        let due = begun + Duration::from_secs_f64(total as f64 / rate as f64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_file_and_a_rate() {
        assert_eq!(order("read /tmp/a file at 7"), Some(("/tmp/a file", 7)));
        for wrong in ["read /tmp/x", "read /tmp/x at 0", "take 7", ""] {
            assert_eq!(order(wrong), None, "{wrong}");
        }
    }
}
