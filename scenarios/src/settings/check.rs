//! Looks at settings as they are typed: names that are misspelt, old or unread, values that are out
//! of range, in a wrong unit, or read as something else.

use std::{collections::BTreeMap, fmt, fmt::Write as _};

use serde::Serialize;

use super::{Given, Kind, Layer, SettingDoc, Version, all, lookup, own, value};
use crate::units::Nanos;

/// What is odd about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oddity {
    /// The name is close to a known one.
    Misspelt,
    /// The name looks like one of these libraries' and is not known.
    Unknown,
    /// No library reads it.
    Unread,
    /// There is a newer name.
    Deprecated,
    /// This version no longer reads it, or does not yet.
    OtherVersion,
    /// The value lies beyond what makes sense.
    OutOfRange,
    /// The value is right only in another unit, most likely.
    WrongUnit,
    /// The value is read as something other than it says.
    ReadOtherwise,
    /// The value is refused.
    Refused,
}

/// Something odd about a setting, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The setting, as typed.
    pub name: String,
    /// Its value, where the remark is about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What kind of remark it is.
    pub oddity: Oddity,
    /// What is odd.
    pub message: String,
    /// What would be right.
    pub right: String,
}

impl Oddity {
    /// Whether the setting does not do what it says. Otherwise it does, under an old name or in
    /// another version.
    pub fn is_wrong(self) -> bool {
        !matches!(self, Oddity::Deprecated | Oddity::OtherVersion)
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        write!(f, ": {}", self.message)?;
        if self.right.is_empty() { Ok(()) } else { write!(f, "; right: {}", self.right) }
    }
}

/// The versions that settings meet; none: not known, and every version is thought of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// Of NCCL.
    pub nccl: Option<Version>,
    /// Of PyTorch.
    pub torch: Option<Version>,
}

impl Versions {
    /// The version of the library that reads a setting.
    pub fn of(self, doc: &SettingDoc) -> Option<Version> {
        match doc.layer {
            Layer::Nccl => self.nccl,
            Layer::Pytorch | Layer::Gloo => self.torch,
            Layer::Rank | Layer::Kernel | Layer::Launcher | Layer::Nobody => None,
        }
    }
}

/// What names of these libraries begin with.
const PREFIXES: &[&str] =
    &["NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "HOROVOD_", "DEEPSPEED_", "TP_SOCKET"];

/// Everything odd about these settings, in their order by name.
pub fn check(settings: &BTreeMap<String, String>, versions: Versions) -> Vec<Remark> {
    let mut remarks: Vec<Remark> =
        settings.iter().flat_map(|(name, value)| check_one(name, value, versions)).collect();
    for (name, value) in settings {
        let newer = lookup(name).and_then(|doc| doc.replaced_by.as_ref());
        if let Some(newer) = newer.filter(|newer| settings.contains_key(*newer)) {
            remarks.push(Remark {
                name: name.clone(),
                value: Some(value.clone()),
                oddity: Oddity::Unread,
                message: format!("{newer} is set too and wins"),
                right: format!("only {newer}"),
            });
        }
    }
    remarks
}

/// Everything odd about one setting.
pub fn check_one(name: &str, value: &str, versions: Versions) -> Vec<Remark> {
    let Some(doc) = lookup(name) else { return unknown(name).into_iter().collect() };
    let mut findings = Findings { name, value, list: Vec::new() };
    findings.look_at_name(doc, versions.of(doc));
    if doc.layer != Layer::Nobody {
        findings.look_at_value(doc);
    }
    findings.list
}

/// A name that is not in the catalogue, if it looks like one that should be.
fn unknown(name: &str) -> Option<Remark> {
    let near = near(name);
    if near.is_none() && !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let (oddity, message, right) = match near {
        Some(near) => (Oddity::Misspelt, "there is no such setting", near.to_owned()),
        None => (
            Oddity::Unknown,
            "not among the settings that are known",
            format!("`ringbreaker settings --prove {name}` looks for it in the libraries"),
        ),
    };
    Some(Remark { name: name.to_owned(), value: None, oddity, message: message.to_owned(), right })
}

/// The environment variable that is most likely meant: a slip of the pen, or a forgotten beginning or
/// end. Stricter than [`super::nearest`], because names of other programs must not be taken for ours.
fn near(name: &str) -> Option<&'static str> {
    let variables = || all().iter().filter(|doc| doc.given == Given::Environment);
    let forgotten = |known: &str| {
        name.len() >= 12
            && (known.strip_suffix(name).is_some_and(|before| before.ends_with('_'))
                || known.strip_prefix(name).is_some_and(|after| after.starts_with('_')))
    };
    let distance = |doc: &SettingDoc| strsim::damerau_levenshtein(name, &doc.name);
    let slip = variables()
        .map(|doc| (distance(doc), doc))
        .filter(|(distance, doc)| *distance <= (doc.name.len() / 8).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, doc)| doc);
    slip.or_else(|| variables().find(|doc| forgotten(&doc.name))).map(|doc| doc.name.as_str())
}

struct Findings<'a> {
    name: &'a str,
    value: &'a str,
    list: Vec<Remark>,
}

impl Findings<'_> {
    fn add(&mut self, oddity: Oddity, message: impl Into<String>, right: impl Into<String>) {
        let (message, right) = (message.into(), right.into());
        let of_value =
            !matches!(oddity, Oddity::Deprecated | Oddity::OtherVersion | Oddity::Unread);
        let value = of_value.then(|| self.value.to_owned());
        self.list.push(Remark { name: self.name.to_owned(), value, oddity, message, right });
    }

    fn look_at_name(&mut self, doc: &SettingDoc, version: Option<Version>) {
        if let Some(instead) = &doc.instead {
            self.add(Oddity::Unread, format!("no library reads it: {}", doc.source), instead);
            return;
        }
        let before = |text: &Option<String>| {
            let first = text.as_deref().and_then(Version::first);
            first.is_some_and(|first| version.is_some_and(|v| v < first))
        };
        if let Some(newer) = doc.replaced_by.as_ref().filter(|_| !before(&doc.renamed)) {
            self.add(Oddity::Deprecated, "an older name", newer);
        }
        let read = version.map_or(Some(doc.gone.is_none()), |version| doc.is_read_in(version));
        if read == Some(false) && doc.replaced_by.is_none() {
            let version = version.map(|v| format!(", and this is {v}")).unwrap_or_default();
            let (message, right) = match &doc.gone {
                Some(gone) if !before(&doc.gone) => {
                    (format!("no longer read as of {gone}{version}"), "leave it out".to_owned())
                }
                _ => {
                    let older: Vec<_> = super::older_names(&doc.name).collect();
                    (format!("read from {} on{version}", doc.since), older.join(", "))
                }
            };
            self.add(Oddity::OtherVersion, message, right);
        }
        let as_sysctl = doc.given == Given::Sysctl && own::is_own(&doc.name);
        if !matches!(doc.given, Given::Environment | Given::Scenario | Given::Limit) && !as_sysctl {
            self.add(Oddity::Unread, "no environment variable", doc.given.says());
        }
    }

    fn look_at_value(&mut self, doc: &SettingDoc) {
        if let Some(own) = own::find(&doc.name) {
            if !own.form.accepts(self.value) {
                self.add(Oddity::Refused, "no value for it", own.form.wanted());
            }
        } else if doc.layer == Layer::Nccl && doc.kind != Kind::Text {
            self.as_nccl(doc);
        } else if value::is_torch_flag(doc) {
            if value::torch_flag(self.value).is_none() {
                self.add(
                    Oddity::Refused,
                    "PyTorch refuses it when the group is made",
                    doc.valid_in_words(),
                );
            }
        } else if matches!(doc.kind, Kind::Integer | Kind::Duration) || numbers(&doc.words) {
            if value::is_read_by_torch(doc) { self.as_stoi(doc) } else { self.as_decimal(doc) }
        } else if doc.kind == Kind::Word {
            self.as_word(doc);
        }
    }

    fn as_nccl(&mut self, doc: &SettingDoc) {
        if self.value.is_empty() {
            self.add(Oddity::ReadOtherwise, "empty, which counts as not set", doc.valid_in_words());
        } else if doc.kind == Kind::Word && !numbers(&doc.words) {
            self.as_word(doc);
        } else {
            let read = value::strtoll(self.value);
            match read.number {
                None => self.add(
                    Oddity::ReadOtherwise,
                    "too large for a 64-bit number: the default holds",
                    valid(doc),
                ),
                Some(number) => self.number(doc, number, read),
            }
        }
    }

    fn as_stoi(&mut self, doc: &SettingDoc) {
        match value::stoi(self.value) {
            Some(read) if read.number.is_some() => {
                self.number(doc, read.number.unwrap_or_default(), read);
            }
            _ => self.add(Oddity::Refused, "no number, and refused", valid(doc)),
        }
    }

    /// Python reads it, or a program of which only the unit is known.
    fn as_decimal(&mut self, doc: &SettingDoc) {
        match self.value.trim().parse::<f64>() {
            Err(_) => self.add(Oddity::Refused, "no number", valid(doc)),
            Ok(number) if number.fract() == 0.0 => {
                self.sense(doc, number as i64);
            }
            Ok(_) => {}
        }
    }

    fn as_word(&mut self, doc: &SettingDoc) {
        if !doc.words.iter().any(|word| word.eq_ignore_ascii_case(self.value)) {
            self.add(Oddity::OutOfRange, "a word that is not known", doc.valid_in_words());
        }
    }

    /// A number as it is read: whether that is what was written, and whether it makes sense.
    fn number(&mut self, doc: &SettingDoc, number: i64, read: value::Leading<'_>) {
        let octal = read.digits.trim_start_matches('-').starts_with('0') && number.abs() > 7;
        let octal = octal && !read.digits.to_ascii_lowercase().contains('x');
        if !read.rest.trim().is_empty() || (octal && doc.layer == Layer::Nccl) {
            let meant = self.in_unit(doc).unwrap_or_else(|| valid(doc));
            self.add(Oddity::ReadOtherwise, format!("read as {number}"), meant);
            return;
        }
        self.sense(doc, number);
    }

    /// Whether a number makes sense.
    fn sense(&mut self, doc: &SettingDoc, number: i64) {
        if doc.default.parse() == Ok(number) {
            return;
        }
        let range = match doc.kind {
            Kind::Bool => (0, 1),
            _ => (doc.min.unwrap_or(i64::MIN), doc.max.unwrap_or(i64::MAX)),
        };
        let known = doc.words.is_empty() || doc.words.iter().any(|word| word.parse() == Ok(number));
        if known && (range.0..=range.1).contains(&number) {
            self.unusual(doc, number);
        } else if doc.unit.starts_with("exponent") {
            self.add(Oddity::WrongUnit, exponent(number), exponents(doc));
        } else {
            self.add(Oddity::OutOfRange, beyond(doc), valid(doc));
        }
    }

    /// A number that is valid and rarely meant.
    fn unusual(&mut self, doc: &SettingDoc, number: i64) {
        let Some((low, high)) = doc.usual else { return };
        let time = in_words(number, &doc.unit);
        if number > high {
            let smaller = number / 1000;
            let right = match doc.unit.as_str() {
                "s" => format!("{smaller}, if it was meant in ms"),
                _ => format!("at most {high} is usual"),
            };
            self.add(Oddity::WrongUnit, format!("that is {time}"), right);
        } else if number < low && number > 0 && doc.unit == "ms" {
            let right = format!("{}, if it was meant in s", number * 1000);
            self.add(Oddity::WrongUnit, format!("that is {time}"), right);
        }
    }

    /// The value in the setting's own unit, when it was typed with one.
    fn in_unit(&self, doc: &SettingDoc) -> Option<String> {
        let typed: Nanos = self.value.trim().parse().ok()?;
        let unit: Nanos =
            format!("1{}", doc.unit).parse().ok().filter(|unit: &Nanos| unit.0 > 0)?;
        Some(format!("{} (the unit is {})", typed.0 / unit.0, doc.unit))
    }
}

fn numbers(words: &[String]) -> bool {
    !words.is_empty() && words.iter().all(|word| word.parse::<i64>().is_ok())
}

fn valid(doc: &SettingDoc) -> String {
    match doc.unit.as_str() {
        "" => doc.valid_in_words(),
        unit => format!("{} ({unit})", doc.valid_in_words()),
    }
}

fn beyond(doc: &SettingDoc) -> String {
    let checked = if doc.layer == Layer::Nccl { ", which NCCL does not check" } else { "" };
    format!("out of range{checked}")
}

fn in_words(number: i64, unit: &str) -> String {
    match format!("{number}{unit}").parse::<Nanos>() {
        Ok(time) if time >= Nanos::from_secs(2 * 3600) => {
            format!("{:.0} hours", time.as_secs_f64() / 3600.0)
        }
        Ok(time) => time.to_string(),
        Err(_) => format!("{number} {unit}"),
    }
}

/// What an exponent beyond the hardware's field becomes.
fn exponent(number: i64) -> String {
    let mut text = "an exponent and no time".to_owned();
    if number > 255 {
        // Writing to a String cannot fail.
        let _ = write!(text, "; cut to {} on its way into an 8-bit field", number & 0xff);
    }
    text
}

/// What exponents mean, with the default number of retries.
fn exponents(doc: &SettingDoc) -> String {
    let [a, b, c] = [18, 20, 22].map(|n| super::ib_ack_time(n).map(|t| Nanos(t.0 * 7)));
    let shown = |time: Option<Nanos>| time.map(|t| format!("{:.1} s", t.as_secs_f64()));
    let [a, b, c] = [a, b, c].map(|time| shown(time).unwrap_or_default());
    format!("{}: with 7 retries 18 is {a}, 20 is {b}, 22 is {c}", doc.valid_in_words())
}

#[cfg(test)]
mod tests;
