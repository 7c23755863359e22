//! `[expect]`, `expect` of a fault, and `[[expect.except]]`.

use std::{collections::BTreeMap, str::FromStr};

use super::{
    model::{Exception, Expect, Limit},
    settings::Settings,
    table::{Entry, Table, Value},
    value,
};
use crate::{nearest, problem::Collector, words::UnknownWord};

/// Reads `[expect]` with its exceptions.
pub(super) fn expect(
    t: Option<Table<'_, '_>>,
    columns: &[String],
    settings: &Settings,
    c: &mut Collector<'_>,
) -> (Expect, Vec<Exception>) {
    let Some(mut t) = t else { return (Expect::default(), Vec::new()) };
    let general = keys(&mut t, c);
    let exceptions = t.array_of_tables("except", c);
    let exceptions = exceptions.into_iter().map(|t| exception(t, columns, settings, c)).collect();
    t.finish(c);
    (general, exceptions)
}

/// Reads `expect` of a fault.
pub(super) fn of_fault(mut t: Table<'_, '_>, c: &mut Collector<'_>) -> Expect {
    let expect = keys(&mut t, c);
    t.finish(c);
    expect
}

/// Withdraws what a more general expectation demands.
const ANY: &str = "any";

fn keys(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Expect {
    Expect {
        outcome: t.optional("outcome").and_then(|v| words(v, c)),
        detector: t.optional("detector").and_then(|v| words(v, c)),
        detected_within: t.optional("detected_within").and_then(|v| limit(v, c)),
        ended_within: t.optional("ended_within").and_then(|v| limit(v, c)),
        no_leftovers: t.optional("no_leftovers").and_then(|v| value::flag(v, c)),
    }
}

/// One word or several of a vocabulary; none of them for `"any"`.
fn words<W>(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Vec<W>>
where
    W: FromStr<Err = UnknownWord> + PartialEq,
{
    if v.get_ref().as_str() == Some(ANY) {
        return Some(Vec::new());
    }
    value::one_or_more(v, c, value::word)
}

fn limit(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Limit> {
    if v.get_ref().as_str() == Some(ANY) {
        return Some(Limit::Any);
    }
    value::positive_duration(v, c).map(Limit::Within)
}

fn exception(
    mut t: Table<'_, '_>,
    columns: &[String],
    settings: &Settings,
    c: &mut Collector<'_>,
) -> Exception {
    let before = t.entries().len();
    let fault = t.optional("fault");
    let known: Vec<&str> = columns.iter().map(String::as_str).collect();
    let columns = fault.and_then(|v| value::one_or_more(v, c, |v, c| column(v, &known, c)));
    let selectors = t.optional_table("settings", c);
    let selected = usize::from(fault.is_some()) + usize::from(selectors.is_some());
    let settings = selectors.map_or_else(BTreeMap::new, |t| selector(&t, settings, c));
    let expect = keys(&mut t, c);
    if selected == 0 {
        c.at(
            t.span(),
            "this exception is about no case in particular",
            "fault = or settings = in it, or its lines under [expect]",
        );
    }
    if selected == before {
        c.at(t.span(), "this exception demands nothing", "outcome = or another line of [expect]");
    }
    t.finish(c);
    Exception { columns, settings, expect }
}

/// The name of a matrix column.
fn column(v: &Value<'_>, known: &[&str], c: &mut Collector<'_>) -> Option<String> {
    let name = value::string(v, c)?;
    if !known.contains(&name.as_str()) {
        c.at(v.span(), format!("there is no fault or group {name:?}"), nearest::hint(&name, known));
        return None;
    }
    Some(name)
}

/// Which values of which settings an exception is about.
fn selector(
    t: &Table<'_, '_>,
    settings: &Settings,
    c: &mut Collector<'_>,
) -> BTreeMap<String, Vec<String>> {
    let mut selected = BTreeMap::new();
    for Entry { key, key_span, value: v } in t.entries() {
        let Some(known) = settings.values(key) else {
            let message = format!("{key:?} is not under [settings]");
            c.at(key_span, message, nearest::hint(key, &settings.names()));
            continue;
        };
        let known: Vec<&str> = known.iter().map(|typed| typed.text.as_str()).collect();
        let values = value::one_or_more(v, c, |v, c| {
            let text = value::scalar(v, c)?;
            if !known.contains(&text.as_str()) {
                let right = format!("one of the values under [settings]: {}", known.join(", "));
                c.at(v.span(), format!("{key} is never {text:?}"), right);
                return None;
            }
            Some(text)
        });
        selected.extend(values.map(|values| (key.to_owned(), values)));
    }
    selected
}
