//! Single TOML values: what they must be, and a problem at their place when they are not.

use std::str::FromStr;

use toml::de::DeValue;

use super::table::{Value, type_of};
use crate::{
    nearest,
    problem::Collector,
    units::{Bytes, Nanos, QuantityError},
    words::UnknownWord,
};

fn wrong_type(v: &Value<'_>, right: &str, c: &mut Collector<'_>) {
    c.at(v.span(), format!("this is {}", type_of(v.get_ref())), right);
}

/// A string.
pub(super) fn string(v: &Value<'_>, c: &mut Collector<'_>) -> Option<String> {
    let text = v.get_ref().as_str();
    if text.is_none() {
        wrong_type(v, "a string in quotes", c);
    }
    text.map(str::to_owned)
}

/// A string on one line that says something.
pub(super) fn sentence(v: &Value<'_>, c: &mut Collector<'_>) -> Option<String> {
    let text = string(v, c)?;
    if text.trim().is_empty() || text.contains('\n') {
        c.at(v.span(), "this is not one line of text", "one sentence on one line");
        return None;
    }
    Some(text)
}

/// `true` or `false`.
pub(super) fn flag(v: &Value<'_>, c: &mut Collector<'_>) -> Option<bool> {
    let flag = v.get_ref().as_bool();
    if flag.is_none() {
        wrong_type(v, "true or false, without quotes", c);
    }
    flag
}

/// A whole number within bounds, both included.
pub(super) fn whole(v: &Value<'_>, low: u32, high: u32, c: &mut Collector<'_>) -> Option<u32> {
    let right = format!("a whole number from {low} to {high}");
    let Some(number) = v.get_ref().as_integer() else {
        wrong_type(v, &right, c);
        return None;
    };
    let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
    let found = number.and_then(|n| u32::try_from(n).ok()).filter(|n| (low..=high).contains(n));
    if found.is_none() {
        c.at(v.span(), "this number is out of range", right);
    }
    found
}

/// A number with or without a fraction, above 0 and up to `high`.
pub(super) fn positive_number(v: &Value<'_>, high: f64, c: &mut Collector<'_>) -> Option<f64> {
    let right = format!("a number above 0, up to {high}");
    let text = match v.get_ref() {
        DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
        DeValue::Float(n) => n.as_str(),
        _ => {
            wrong_type(v, &right, c);
            return None;
        }
    };
    let found = text.parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= high);
    if found.is_none() {
        c.at(v.span(), "this number is out of range", right);
    }
    found
}

/// A duration with a unit.
pub(super) fn duration(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Nanos> {
    quantity(v, "a duration with a unit, such as \"250ms\", \"2s\" or \"1min\"", c)
}

/// A duration that is not nothing.
pub(super) fn positive_duration(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Nanos> {
    let time = duration(v, c)?;
    if time == Nanos::ZERO {
        c.at(v.span(), "this is no time at all", "a duration above 0s");
        return None;
    }
    Some(time)
}

/// A size with a unit.
pub(super) fn size(v: &Value<'_>, c: &mut Collector<'_>) -> Option<Bytes> {
    quantity(v, "a size with a unit, such as \"64 KiB\", \"1 MiB\" or \"2 GB\"", c)
}

fn quantity<Q>(v: &Value<'_>, right: &str, c: &mut Collector<'_>) -> Option<Q>
where
    Q: FromStr<Err = QuantityError>,
{
    let Some(text) = v.get_ref().as_str() else {
        wrong_type(v, right, c);
        return None;
    };
    match text.parse() {
        Ok(quantity) => Some(quantity),
        Err(QuantityError { given, wanted }) => {
            c.at(v.span(), format!("{given:?} has no unit that fits here"), wanted);
            None
        }
    }
}

/// The value of a setting, as typed: a string, a decimal number, or true or false.
pub(super) fn scalar(v: &Value<'_>, c: &mut Collector<'_>) -> Option<String> {
    match v.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Some(n.as_str().to_owned()),
        DeValue::Float(n) => Some(n.as_str().to_owned()),
        DeValue::Boolean(b) => Some(b.to_string()),
        _ => {
            wrong_type(v, "a string, a decimal number, or true or false", c);
            None
        }
    }
}

/// A word of a closed vocabulary.
pub(super) fn word<W>(v: &Value<'_>, c: &mut Collector<'_>) -> Option<W>
where
    W: FromStr<Err = UnknownWord>,
{
    let text = string(v, c)?;
    match text.parse() {
        Ok(word) => Some(word),
        Err(UnknownWord { given, what, known }) => {
            c.at(v.span(), format!("{given:?} is no {what}"), nearest::hint(&given, &known));
            None
        }
    }
}

/// One value, or a list of at least one; each read by `read`. `None` when any of them is wrong.
pub(super) fn one_or_more<'t, T: PartialEq>(
    v: &Value<'t>,
    c: &mut Collector<'_>,
    mut read: impl FnMut(&Value<'t>, &mut Collector<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let DeValue::Array(array) = v.get_ref() else { return read(v, c).map(|value| vec![value]) };
    if array.is_empty() {
        c.at(v.span(), "this list is empty", "at least one value, or no such line at all");
        return None;
    }
    let before = c.count();
    let mut values = Vec::new();
    for item in array.iter() {
        let Some(value) = read(item, c) else { continue };
        if values.contains(&value) {
            c.at(item.span(), "this value is in the list twice", "each value once");
        }
        values.push(value);
    }
    (c.count() == before).then_some(values)
}
