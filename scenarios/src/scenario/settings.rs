//! `[settings]` and `[[per_rank]]`: names, values as typed, and how they go together.

use std::{collections::BTreeMap, ops::Range};

use toml::de::DeValue;

use super::{
    model::Setting,
    table::{Entry, Table, Value},
    value,
};
use crate::{
    case::{ClusterPlan, Rank},
    plan::MAX_CASES,
    problem::{Collector, Problem},
    settings::{
        self,
        own::{self, Form, OWN, Scope},
    },
    units::Nanos,
};

/// A value as typed, with its place.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

impl PartialEq for Typed {
    fn eq(&self, other: &Typed) -> bool {
        self.text == other.text
    }
}

/// A setting with its places.
pub(super) struct Placed {
    name: String,
    name_span: Range<usize>,
    values: Vec<Typed>,
}

/// All of `[settings]`.
#[derive(Default)]
pub(super) struct Settings {
    list: Vec<Placed>,
}

/// All of `[[per_rank]]`.
#[derive(Default)]
pub(super) struct PerRank {
    by_rank: BTreeMap<Rank, Vec<(String, Typed)>>,
}

impl Settings {
    /// The values of a setting; none when the file does not name it.
    pub(super) fn values(&self, name: &str) -> Option<&[Typed]> {
        self.list.iter().find(|s| s.name == name).map(|s| s.values.as_slice())
    }

    /// Every name.
    pub(super) fn names(&self) -> Vec<&str> {
        self.list.iter().map(|s| s.name.as_str()).collect()
    }

    /// Without places.
    pub(super) fn into_settings(self) -> Vec<Setting> {
        let bare = |s: Placed| Setting {
            name: s.name,
            values: s.values.into_iter().map(|v| v.text).collect(),
        };
        self.list.into_iter().map(bare).collect()
    }
}

impl PerRank {
    /// Without places.
    pub(super) fn into_values(self) -> BTreeMap<Rank, BTreeMap<String, String>> {
        let bare =
            |list: Vec<(String, Typed)>| list.into_iter().map(|(n, v)| (n, v.text)).collect();
        self.by_rank.into_iter().map(|(rank, list)| (rank, bare(list))).collect()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &Typed> {
        self.by_rank.values().flatten().filter(move |(n, _)| n == name).map(|(_, typed)| typed)
    }
}

/// Reads `[settings]`: each value may be a list, which is swept.
pub(super) fn settings(t: Option<Table<'_, '_>>, c: &mut Collector<'_>) -> Settings {
    let mut settings = Settings::default();
    for entry in t.iter().flat_map(Table::entries) {
        if !name_is_right(&entry, c) {
            continue;
        }
        let values = value::one_or_more(entry.value, c, |v, c| typed(entry.key, v, c));
        if let Some(values) = values {
            let Entry { key, key_span: name_span, .. } = entry;
            settings.list.push(Placed { name: key.to_owned(), name_span, values });
        }
    }
    settings
}

/// Reads `[[per_rank]]`: the settings of single ranks, not swept.
pub(super) fn per_rank(
    tables: Vec<Table<'_, '_>>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) -> PerRank {
    let mut all = PerRank::default();
    let last = cluster.map_or(u32::MAX, |cl| cl.nodes * cl.ranks_per_node - 1);
    for mut t in tables {
        let at = t.required("rank", "rank = 0", c);
        let rank = at.and_then(|v| value::whole(v, 0, last, c).map(|rank| (rank, v.span())));
        let inner = t.table("settings", "settings = { NAME = \"value\" }", c);
        let settings: Vec<_> =
            inner.iter().flat_map(Table::entries).filter_map(|e| of_one_rank(&e, c)).collect();
        t.finish(c);
        let Some((rank, span)) = rank else { continue };
        if all.by_rank.insert(rank, settings).is_some() {
            c.at(span, format!("rank {rank} is there twice"), "one [[per_rank]] for each rank");
        }
    }
    all
}

fn of_one_rank(entry: &Entry<'_, '_>, c: &mut Collector<'_>) -> Option<(String, Typed)> {
    if !name_is_right(entry, c) {
        return None;
    }
    if own::find(entry.key).is_some_and(|own| own.scope != Scope::Rank) {
        c.at(
            entry.key_span.clone(),
            format!("{:?} does not hold for a single rank", entry.key),
            "the same line under [settings]",
        );
        return None;
    }
    if let DeValue::Array(_) = entry.value.get_ref() {
        c.at(entry.value.span(), "a single rank's setting is not swept", "one value");
        return None;
    }
    typed(entry.key, entry.value, c).map(|typed| (entry.key.to_owned(), typed))
}

fn name_is_right(entry: &Entry<'_, '_>, c: &mut Collector<'_>) -> bool {
    let name = entry.key;
    let environment = name.starts_with(|ch: char| ch.is_ascii_uppercase() || ch == '_')
        && name.chars().all(|ch| ch.is_ascii_uppercase() || ch.is_ascii_digit() || ch == '_');
    if environment || own::is_own(name) {
        return true;
    }
    let known = match settings::nearest(name) {
        Some(name) => format!("{name:?}"),
        None => OWN.iter().map(|own| own.name).collect::<Vec<_>>().join(", "),
    };
    c.at(
        entry.key_span.clone(),
        format!("there is no setting {name:?}"),
        format!("{known}; or the name of an environment variable in upper case"),
    );
    false
}

/// A value of a setting, as typed: a string, a number, or true or false.
fn typed(name: &str, v: &Value<'_>, c: &mut Collector<'_>) -> Option<Typed> {
    let text = value::scalar(v, c)?;
    let wanted = match own::find(name) {
        Some(own) if !own.form.accepts(&text) => own.form.wanted(),
        None if name == "NCCL_TIMEOUT" && own::script_timeout(&text).is_none() => {
            "seconds as scripts give them, such as 2, or a duration such as \"2s\"".to_owned()
        }
        None if text.contains('\0') => {
            "a text without NUL: it goes into the environment".to_owned()
        }
        _ => return Some(Typed { text, span: v.span() }),
    };
    c.at(v.span(), format!("{text:?} is no value for {name}"), wanted);
    None
}

/// Whether a setting is a deadline that the case must outlive, and the deadline.
fn deadline_of(name: &str, text: &str) -> Option<Nanos> {
    match own::find(name) {
        Some(own) if own.form == Form::Deadline => own::deadline(text).flatten(),
        None if name == "NCCL_TIMEOUT" => own::script_timeout(text),
        _ => None,
    }
}

/// A case that is ended before its longest deadline could tell nothing about it.
pub(super) fn check_against_cap(
    settings: &Settings,
    per_rank: &PerRank,
    cap: Option<&(Nanos, Range<usize>)>,
    c: &mut Collector<'_>,
) {
    let Some((cap, _)) = cap else { return };
    let wait = |values: Option<&[Typed]>| {
        values.into_iter().flatten().filter_map(|v| v.text.parse::<Nanos>().ok()).max()
    };
    let dump = wait(settings.values("dump_wait")).unwrap_or(Nanos::ZERO);
    let general = settings.list.iter().flat_map(|s| s.values.iter().map(move |v| (&s.name, v)));
    let single = per_rank.by_rank.values().flatten().map(|(name, v)| (name, v));
    for (name, typed) in general.chain(single) {
        let Some(deadline) = deadline_of(name, &typed.text) else { continue };
        if deadline + dump >= *cap {
            let with =
                if dump == Nanos::ZERO { String::new() } else { format!(" with dump_wait {dump}") };
            c.at(
                typed.span.clone(),
                format!("{name} of {deadline}{with} does not end before the case does, at {cap}"),
                format!(
                    "less than case_cap, or case_cap = \"{}\" or more",
                    deadline + dump + deadline
                ),
            );
        }
    }
}

/// NCCL_COMM_ID has one source.
pub(super) fn check_rendezvous(
    settings: &Settings,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) {
    let fixed = cluster.and_then(|cluster| cluster.rendezvous_port);
    let Some(port) = fixed else { return };
    if let Some(setting) = settings.list.iter().find(|s| s.name == "NCCL_COMM_ID") {
        c.at(
            setting.name_span.clone(),
            format!("rendezvous_port = {port} sets NCCL_COMM_ID already"),
            "one of the two",
        );
    }
}

/// What is odd about the settings, and yet allowed. What the backend does not read is said when it is
/// known; NCCL_TIMEOUT is read by ringbreaker's rank.
pub(super) fn oddities(
    settings: &Settings,
    per_rank: &PerRank,
    mut warnings: Collector<'_>,
) -> Vec<Problem> {
    let general = settings.list.iter().flat_map(|s| {
        s.values.iter().enumerate().map(move |(at, v)| (&s.name, v, Some(&s.name_span), at == 0))
    });
    let single = per_rank.by_rank.values().flatten().map(|(name, v)| (name, v, None, true));
    for (name, typed, name_span, first) in general.chain(single) {
        if name == "NCCL_TIMEOUT" {
            continue;
        }
        for remark in settings::check_one(name, &typed.text, settings::Versions::default()) {
            let (message, span) = match remark.value {
                Some(value) => (format!("{name}={value}: {}", remark.message), &typed.span),
                // Of a swept setting's name it is said once.
                None if !first => continue,
                None => (format!("{name}: {}", remark.message), name_span.unwrap_or(&typed.span)),
            };
            warnings.at(span.clone(), message, remark.right);
        }
    }
    warnings.into_list()
}

/// Whether some rank under some choice of settings aborts its communicator.
pub(super) fn some_rank_aborts(settings: &Settings, per_rank: &PerRank) -> bool {
    let is = |name: &str, wanted: &[&str]| {
        settings
            .values(name)
            .into_iter()
            .flatten()
            .chain(per_rank.values(name))
            .any(|v| wanted.contains(&v.text.as_str()))
    };
    is("error_handling", &["teardown", "cleanup-only"])
        || is("blocking_wait", &["true"])
        || is("coordinated_abort", &["true"])
}

/// A matrix too large is refused before it is made.
pub(super) fn check_size(
    settings: &Settings,
    columns: usize,
    repetitions: u32,
    c: &mut Collector<'_>,
) {
    let each = settings.list.iter().map(|s| s.values.len() as u128);
    let cases = each
        .chain([columns as u128, u128::from(repetitions)])
        .fold(1u128, |product, n| product.saturating_mul(n));
    if cases > MAX_CASES {
        let largest = settings.list.iter().max_by_key(|s| s.values.len());
        c.at(
            largest.map_or(0..0, |s| s.name_span.clone()),
            format!("all settings, faults and repetitions together make {cases} cases"),
            format!("at most {MAX_CASES} cases: sweep fewer values, or split the scenario"),
        );
    }
}
