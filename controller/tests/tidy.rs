//! House rules that a machine can check, over the whole workspace.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").into()
}

/// Files that git tracks, relative to the root, with this ending.
fn tracked(ending: &str) -> Vec<PathBuf> {
    let out = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let out = out.expect("git lists the files of this checkout");
    let list = String::from_utf8(out.stdout).expect("paths are UTF-8");
    let files: Vec<PathBuf> = list
        .split('\0')
        .filter(|p| p.ends_with(ending) && root().join(p).exists())
        .map(PathBuf::from)
        .collect();
    assert!(!files.is_empty(), "no *{ending} files found: is this a git checkout?");
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<String> = tracked(".rs")
        .iter()
        .filter_map(|p| {
            let lines = read(p).lines().count();
            (lines > 700).then(|| format!("{}: {lines} lines", p.display()))
        })
        .collect();
    assert!(long.is_empty(), "over 700 lines, find the second subject in them: {long:#?}");
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    let empty = ["util", "utils", "common", "helper", "helpers", "misc", "manager"];
    for path in tracked(".rs") {
        for part in path.iter().filter_map(|p| Path::new(p).file_stem()) {
            assert!(!empty.iter().any(|e| part == *e), "{}: name its subject", path.display());
        }
    }
}

#[test]
fn unsafe_lives_in_sys_and_rank_alone() {
    let allowed = ["agent/src/sys/", "agent/src/rank/", "agent/tests/"];
    for path in tracked(".rs") {
        let name = path.to_string_lossy().into_owned();
        if allowed.iter().any(|a| name.starts_with(a)) {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let found = ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|u| code.contains(u));
            let quoted = code.contains('"');
            assert!(!found || quoted, "{name}:{}: unsafe outside sys and rank", number + 1);
        }
    }
}

#[test]
fn the_pure_crates_open_no_socket_and_read_no_clock() {
    let forbidden =
        ["SystemTime::now", "Instant::now", "TcpStream", "TcpListener", "UdpSocket", "rand::rng()"];
    for path in tracked(".rs") {
        let name = path.to_string_lossy().into_owned();
        let pure = name.starts_with("scenarios/src") || name.starts_with("reports/src");
        // Benchmarks measure time by definition; they are called from the command line alone.
        if !pure || name.ends_with("/bench.rs") {
            continue;
        }
        let text = read(&path);
        for word in forbidden {
            assert!(!text.contains(word), "{name}: {word} in a pure crate");
        }
    }
}

#[test]
fn dependency_arrows_point_the_way_the_design_says() {
    let arrows: &[(&str, &[&str])] = &[
        ("proto", &[]),
        ("scenarios", &[]),
        ("reports", &["scenarios"]),
        ("agent", &["proto", "scenarios"]),
    ];
    for (from, to) in arrows {
        let manifest = read(Path::new(&format!("{from}/Cargo.toml")));
        for other in ["proto", "scenarios", "reports", "agent", "controller"] {
            let depends = manifest.contains(&format!("ringbreaker-{other}."))
                || manifest.contains(&format!("ringbreaker-{other} ="));
            assert!(!depends || to.contains(&other), "{from} must not depend on {other}");
        }
    }
}

#[test]
fn links_between_documents_resolve() {
    for path in tracked(".md") {
        let dir = root().join(path.parent().unwrap_or(Path::new("")));
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(dir.join(target).exists(), "{}: no {target}", path.display());
        }
    }
}

#[test]
fn nothing_in_the_tree_is_left_half_done() {
    // Put together here, so that this file does not find itself.
    let marks = [["FIX", "ME"].concat(), ["XX", "X:"].concat(), ["dbg", "!("].concat()];
    for path in tracked(".rs") {
        let text = read(&path);
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{}: {mark}", path.display());
        }
    }
}
