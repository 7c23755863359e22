//! What is said about a setting, in the order in which people ask.

use std::fmt::Write as _;

use super::{Given, Layer, SettingDoc, older_names};

/// What is known besides the effect, in the order in which people ask.
pub fn facts(doc: &SettingDoc) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut add = |what, text: String| {
        if !text.is_empty() {
            facts.push((what, text));
        }
    };
    add("when it acts", doc.fires.clone());
    add("read by", doc.readers_in_words());
    add(
        "use",
        doc.replaced_by.clone().map(|new| format!("{new} in place of it")).unwrap_or_default(),
    );
    add("what does it", doc.instead.clone().unwrap_or_default());
    add("older name", older_names(&doc.name).collect::<Vec<_>>().join(", "));
    add("also", doc.aka.join(", "));
    if doc.given != Given::Environment {
        add("given as", doc.given.says().to_owned());
    }
    if doc.layer != Layer::Nobody {
        add("default", default(doc));
        let unit = if doc.unit.is_empty() { String::new() } else { format!(" ({})", doc.unit) };
        add("values", format!("{}{unit}", doc.valid_in_words()));
        add("since", doc.since.clone());
        add("gone in", doc.gone.clone().unwrap_or_default());
        add("read", doc.read_at.says().to_owned());
    }
    add("known from", doc.source.clone());
    facts
}

/// The default with its history.
fn default(doc: &SettingDoc) -> String {
    let mut text = doc.default.clone();
    if !doc.default_note.is_empty() {
        let _ = write!(text, " ({})", doc.default_note);
    }
    for earlier in doc.earlier.iter().rev() {
        let _ = write!(text, "; {} up to {}", earlier.value, earlier.until);
    }
    text
}
