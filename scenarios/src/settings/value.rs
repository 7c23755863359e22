//! How the readers of a setting understand what is typed.

use super::{Kind, Layer, Reader, SettingDoc};

/// Words that PyTorch's switches take, in any case.
const TORCH_FLAGS: &[(&str, bool)] = &[
    ("1", true),
    ("y", true),
    ("yes", true),
    ("t", true),
    ("true", true),
    ("0", false),
    ("n", false),
    ("no", false),
    ("f", false),
    ("false", false),
];

/// A number at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leading<'a> {
    /// None: it does not fit, and whoever reads it keeps the default or refuses.
    pub(super) number: Option<i64>,
    /// The digits, with sign and prefix; empty when there are none, which counts as 0.
    pub(super) digits: &'a str,
    /// What follows them and is passed over.
    pub(super) rest: &'a str,
}

/// As C's strtoll with base 0 reads a number, which is how NCCL does.
pub(super) fn strtoll(text: &str) -> Leading<'_> {
    let trimmed = text.trim_start();
    let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let lower = unsigned.to_ascii_lowercase();
    let hexadecimal = lower.strip_prefix("0x").is_some_and(starts_hexadecimal);
    let (radix, prefix) = match lower.starts_with('0') {
        _ if hexadecimal => (16, 2),
        true => (8, 0),
        false => (10, 0),
    };
    let body = &unsigned[prefix..];
    let end = body.find(|ch: char| !ch.is_digit(radix)).unwrap_or(body.len());
    let sign = trimmed.len() - unsigned.len();
    let digits = &trimmed[..if end == 0 { 0 } else { sign + prefix + end }];
    let magnitude = i64::from_str_radix(&body[..end], radix).ok();
    let number = if end == 0 { Some(0) } else { magnitude };
    let number = number.map(|n| if trimmed.starts_with('-') { -n } else { n });
    Leading { number, digits, rest: &trimmed[digits.len()..] }
}

fn starts_hexadecimal(text: &str) -> bool {
    text.starts_with(|ch: char| ch.is_ascii_hexdigit())
}

/// As C++'s stoi reads a number, which is how PyTorch does: without digits it throws.
pub(super) fn stoi(text: &str) -> Option<Leading<'_>> {
    let trimmed = text.trim_start();
    let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let end = unsigned.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(unsigned.len());
    let digits = &trimmed[..trimmed.len() - unsigned.len() + end];
    let number = digits.parse::<i32>().ok().map(i64::from);
    (end > 0).then_some(Leading { number, digits, rest: &trimmed[digits.len()..] })
}

/// A switch of PyTorch.
pub(super) fn torch_flag(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    TORCH_FLAGS.iter().find(|(word, _)| *word == lower).map(|(_, on)| *on)
}

/// The number that the readers of a setting make of a text; none: they refuse it, or keep the
/// default, or the setting is no number.
pub(super) fn number(doc: &SettingDoc, text: &str) -> Option<i64> {
    match doc.layer {
        _ if doc.kind == Kind::Text => None,
        Layer::Nccl if text.is_empty() => None,
        Layer::Nccl => strtoll(text).number,
        _ if is_torch_flag(doc) => torch_flag(text).map(i64::from),
        _ => stoi(text).and_then(|leading| leading.number),
    }
}

/// Whether PyTorch's C++ reads it, which is strict about switches and lax about numbers.
pub(super) fn is_read_by_torch(doc: &SettingDoc) -> bool {
    doc.is_read_by(&[Reader::ProcessGroupNccl, Reader::Nccl2])
}

/// Whether PyTorch's C++ reads it as a switch.
pub(super) fn is_torch_flag(doc: &SettingDoc) -> bool {
    doc.kind == Kind::Bool && is_read_by_torch(doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_nccl_reads_them() {
        for (text, number, rest) in [
            ("34", Some(34), ""),
            ("-2", Some(-2), ""),
            ("  7", Some(7), ""),
            ("10s", Some(10), "s"),
            ("true", Some(0), "true"),
            ("010", Some(8), ""),
            ("089", Some(0), "89"),
            ("0x10", Some(16), ""),
            ("-0x10", Some(-16), ""),
            ("0x", Some(0), "x"),
            ("0", Some(0), ""),
            ("", Some(0), ""),
            ("-", Some(0), "-"),
            ("99999999999999999999", None, ""),
        ] {
            let read = strtoll(text);
            assert_eq!((read.number, read.rest), (number, rest), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_pytorch_reads_them() {
        let read = |text| stoi(text).map(|leading| (leading.number, leading.rest));
        assert_eq!(read("480"), Some((Some(480), "")));
        assert_eq!(read("30s"), Some((Some(30), "s")));
        assert_eq!(read("010"), Some((Some(10), "")));
        assert_eq!(read("99999999999"), Some((None, "")));
        for refused in ["", "ten", "-"] {
            assert_eq!(read(refused), None, "{refused:?}");
        }
        assert_eq!((torch_flag("YES"), torch_flag("f")), (Some(true), Some(false)));
        assert_eq!(torch_flag("on"), None);
    }
}
