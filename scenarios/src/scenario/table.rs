//! A TOML table being read: every key that is asked for is known, what is left over is a problem.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{nearest, problem::Collector};

/// A value with its place.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// A table being read.
pub(super) struct Table<'a, 't> {
    /// How problems call it, such as `[cluster]`.
    name: String,
    entries: &'a DeTable<'t>,
    /// Where it begins: the place of what is missing in it.
    span: Range<usize>,
    known: Vec<&'static str>,
}

/// An entry of a table.
pub(super) struct Entry<'a, 't> {
    pub(super) key: &'a str,
    pub(super) key_span: Range<usize>,
    pub(super) value: &'a Value<'t>,
}

impl<'a, 't> Table<'a, 't> {
    /// The whole file.
    pub(super) fn root(entries: &'a DeTable<'t>) -> Table<'a, 't> {
        Table { name: "a scenario".into(), entries, span: 0..0, known: Vec::new() }
    }

    /// A value that must be a table.
    pub(super) fn of(
        value: &'a Value<'t>,
        name: impl Into<String>,
        right: &str,
        c: &mut Collector<'_>,
    ) -> Option<Table<'a, 't>> {
        let name = name.into();
        match value.get_ref() {
            DeValue::Table(entries) => {
                Some(Table { name, entries, span: value.span(), known: Vec::new() })
            }
            other => {
                c.at(value.span(), format!("{name} is {}, not a table", type_of(other)), right);
                None
            }
        }
    }

    /// Where it is.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// A key that may be missing.
    pub(super) fn optional(&mut self, key: &'static str) -> Option<&'a Value<'t>> {
        self.known.push(key);
        self.entries.get(key)
    }

    /// A key that must be there.
    pub(super) fn required(
        &mut self,
        key: &'static str,
        right: &str,
        c: &mut Collector<'_>,
    ) -> Option<&'a Value<'t>> {
        let value = self.optional(key);
        if value.is_none() {
            c.at(self.span(), format!("{} has no {key:?}", self.name), right);
        }
        value
    }

    /// A table that must be there.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        right: &str,
        c: &mut Collector<'_>,
    ) -> Option<Table<'a, 't>> {
        let value = self.required(key, right, c)?;
        Table::of(value, format!("[{key}]"), right, c)
    }

    /// A table that may be missing.
    pub(super) fn optional_table(
        &mut self,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Option<Table<'a, 't>> {
        let value = self.optional(key)?;
        Table::of(value, format!("[{key}]"), &format!("[{key}] on a line of its own"), c)
    }

    /// Tables written as `[[key]]`, as many as there are.
    pub(super) fn array_of_tables(
        &mut self,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Vec<Table<'a, 't>> {
        let Some(value) = self.optional(key) else { return Vec::new() };
        let right = format!("[[{key}]] on a line of its own, once for each");
        let DeValue::Array(array) = value.get_ref() else {
            c.at(
                value.span(),
                format!("{key} is {}, not a list of tables", type_of(value.get_ref())),
                right,
            );
            return Vec::new();
        };
        array.iter().filter_map(|item| Table::of(item, format!("[[{key}]]"), &right, c)).collect()
    }

    /// All entries in the order of the file.
    pub(super) fn entries(&self) -> Vec<Entry<'a, 't>> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| Entry { key: key.get_ref(), key_span: key.span(), value })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        entries
    }

    /// Complains about every key that nobody asked for.
    pub(super) fn finish(self, c: &mut Collector<'_>) {
        for entry in self.entries() {
            if !self.known.contains(&entry.key) {
                let message = format!("{} has no key {:?}", self.name, entry.key);
                c.at(entry.key_span, message, nearest::hint(entry.key, &self.known));
            }
        }
    }
}

/// A TOML type, with its article.
pub(super) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
