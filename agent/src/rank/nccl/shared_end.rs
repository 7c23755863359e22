//! Whether code points into the middle of a longer name.
//!
//! A linker keeps a constant once that is the end of another one, so that the bytes of
//! `TORCH_NCCL_BLOCKING_WAIT` may serve `NCCL_BLOCKING_WAIT` too. Then something points to the place
//! where the shorter one begins: on x86-64 an instruction with an address relative to itself (`lea`), or
//! a pointer in a table. Where nothing does, nobody can ask for the shorter name.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::unix::fs::FileExt,
};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;
/// `lea` with a 32-bit displacement: opcode, operand, displacement.
const LEA: usize = 6;
/// Bit of a segment's flags: it holds code.
const EXECUTABLE: u32 = 1;

/// A part of a file that is mapped when it is loaded.
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
    code: bool,
}

/// To which of these places, offsets into the file, something points. None: this is no library for
/// x86-64, and nothing was looked for.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn pointed_to(file: &File, places: &HashSet<u64>) -> io::Result<Option<HashSet<u64>>> {
    let Some(segments) = segments(file)? else { return Ok(None) };
    let mut by_address = HashMap::new();
    for place in places {
        let inside = |s: &&Segment| (s.offset..s.offset + s.size).contains(place);
        if let Some(segment) = segments.iter().find(inside) {
            by_address.insert(segment.address + (place - segment.offset), *place);
        }
    }
    let mut found = HashSet::new();
    for segment in &segments {
        scan(file, segment, |address, bytes| {
            let target = match segment.code {
                true => target_of_lea(address, bytes),
                false => pointer(address, bytes),
            };
            found.extend(target.and_then(|target| by_address.get(&target)));
        })?;
    }
    Ok(Some(found))
}

/// Where a `lea` at this address points to: `8d`, an operand relative to the next instruction, and the
/// displacement from there.
fn target_of_lea(address: u64, bytes: &[u8]) -> Option<u64> {
    let [0x8d, operand, displacement @ ..] = bytes else { return None };
    if operand & 0xc7 != 0x05 {
        return None;
    }
    let displacement = i32::from_le_bytes(displacement.get(..4)?.try_into().ok()?);
    Some((address + LEA as u64).wrapping_add_signed(i64::from(displacement)))
}

/// What a table or a relocation holds at this address.
fn pointer(address: u64, bytes: &[u8]) -> Option<u64> {
    let aligned = address.is_multiple_of(8);
    aligned.then(|| bytes.get(..8)?.try_into().ok().map(u64::from_le_bytes)).flatten()
}

/// Hands over every position of a segment with its address and what follows there.
fn scan(file: &File, segment: &Segment, mut look: impl FnMut(u64, &[u8])) -> io::Result<()> {
    const AFTER: usize = 8;
    let mut chunk = vec![0; CHUNK + AFTER];
    let mut at = 0;
    while at < segment.size {
        let wanted = usize::try_from(segment.size - at).unwrap_or(usize::MAX).min(chunk.len());
        file.read_exact_at(&mut chunk[..wanted], segment.offset + at)?;
        let positions = wanted.min(CHUNK);
        for position in 0..positions {
            look(segment.address + at + position as u64, &chunk[position..wanted]);
        }
        at += positions as u64;
    }
    Ok(())
}

/// The mapped parts of an ELF file for x86-64 (elf(5)); none: it is something else.
fn segments(file: &File) -> io::Result<Option<Vec<Segment>>> {
    let mut header = [0; 64];
    if file.read_at(&mut header, 0)? < header.len() {
        return Ok(None);
    }
    // 64 bits, little-endian, x86-64.
    let right = header.starts_with(b"\x7fELF\x02\x01") && header[18..20] == [62, 0];
    if !right {
        return Ok(None);
    }
    let (table, size, count) =
        (number(&header[32..40]), number(&header[54..56]), number(&header[56..58]));
    let mut segments = Vec::new();
    for index in 0..count {
        let mut entry = [0; 56];
        if file.read_at(&mut entry, table + index * size)? < entry.len() {
            return Ok(None);
        }
        const LOAD: u64 = 1;
        if number(&entry[..4]) == LOAD {
            segments.push(Segment {
                offset: number(&entry[8..16]),
                address: number(&entry[16..24]),
                size: number(&entry[32..40]),
                code: number(&entry[4..8]) & u64::from(EXECUTABLE) != 0,
            });
        }
    }
    Ok(Some(segments))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::{
        super::names::{Trace, traces},
        *,
    };

    /// A library that asks for these names, linked so that constants are shared.
    fn library(directory: &Path, names: &[&str]) -> Option<std::path::PathBuf> {
        let asks = names.iter().map(|name| format!("getenv(\"{name}\") != 0"));
        let asks = asks.collect::<Vec<_>>().join(" + ");
        let source = directory.join("asks.c");
        let text = format!("#include <stdlib.h>\nint asks(void) {{ return {asks}; }}\n");
        std::fs::write(&source, text).unwrap();
        let out = directory.join("libasks.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wl,-O2", "-o"]).arg(&out).arg(&source);
        cc.status().is_ok_and(|status| status.success()).then_some(out)
    }

    #[test]
    fn a_name_that_shares_the_end_of_another_is_found_where_code_asks_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["TORCH_NCCL_SOME_WAIT", "NCCL_SOME_WAIT"];
        if !cfg!(target_arch = "x86_64") {
            println!("SKIPPED: code is looked into on x86-64 alone");
            return;
        }
        for (asked, want) in [
            (&names[..], [Trace::Whole, Trace::Whole]),
            (&names[..1], [Trace::Whole, Trace::Absent]),
            (&names[1..], [Trace::Absent, Trace::Whole]),
        ] {
            let Some(library) = library(directory.path(), asked) else {
                println!("SKIPPED: cc makes no shared library here");
                return;
            };
            assert_eq!(traces(&library, &names).unwrap(), want, "{asked:?}");
            let bytes = std::fs::read(&library).unwrap();
            let last = names[1].as_bytes();
            if bytes.windows(last.len()).filter(|window| *window == last).count() > 1 {
                println!("SKIPPED: this linker does not share the ends of constants");
            }
        }
    }

    #[test]
    fn addresses_are_computed_as_the_processor_does() {
        // lea 0x10(%rip), %rdi without its prefix, at 0x1000.
        assert_eq!(target_of_lea(0x1000, &[0x8d, 0x3d, 0x10, 0, 0, 0]), Some(0x1016));
        assert_eq!(target_of_lea(0x1000, &[0x8d, 0x05, 0xfa, 0xff, 0xff, 0xff]), Some(0x1000));
        assert_eq!(target_of_lea(0x1000, &[0x8d, 0x45, 0x10, 0, 0, 0]), None);
        assert_eq!(target_of_lea(0x1000, &[0x8d, 0x3d, 0x10]), None);
        assert_eq!(pointer(0x1000, &[0x16, 0x10, 0, 0, 0, 0, 0, 0]), Some(0x1016));
        assert_eq!(pointer(0x1001, &[0x16, 0x10, 0, 0, 0, 0, 0, 0]), None);
    }
}
