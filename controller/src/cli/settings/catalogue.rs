//! Lists settings, and explains those that are named.

use ringbreaker_scenarios::settings::{self, SettingDoc};
use serde_json::json;

use super::{
    super::documents::{print, print_json, tell},
    Page, SettingsArgs,
};
use crate::{
    error::{Error, Expected},
    exit,
};

/// Longest line of text about a setting.
const WIDTH: usize = 100;

/// What the arguments ask for.
pub(super) fn print_asked(args: &SettingsArgs) -> Result<u8, Error> {
    if args.format == Page::Markdown {
        print(&settings::document());
        return Ok(exit::PASS);
    }
    let docs = asked(args)?;
    match args.format {
        Page::Json => print_json(&json!(docs)),
        _ if args.names.is_empty() => list(&docs),
        _ => print(&docs.iter().map(|doc| explanation(doc)).collect::<Vec<_>>().join("\n\n")),
    }
    Ok(exit::PASS)
}

/// The settings that are named, else all; less those that the filters leave out.
pub(super) fn asked(args: &SettingsArgs) -> Result<Vec<&'static SettingDoc>, Error> {
    let docs = match args.names.as_slice() {
        [] => settings::all().iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let wanted = |doc: &&SettingDoc| {
        args.layer.is_none_or(|layer| doc.layer == layer)
            && args.reads_by.is_none_or(|reader| doc.is_read_by(&[reader]))
            && args.search.as_ref().is_none_or(|text| doc.mentions(text))
    };
    Ok(docs.into_iter().filter(wanted).collect())
}

/// The setting of this name.
pub(super) fn find(name: &str) -> Result<&'static SettingDoc, Error> {
    settings::lookup(name).ok_or_else(|| {
        let help = settings::nearest(name).map_or_else(
            || "`ringbreaker settings` lists those that are known".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        Expected::Argument { given: name.to_owned(), what: "known setting", help }.into()
    })
}

fn list(docs: &[&SettingDoc]) {
    let width = docs.iter().map(|doc| doc.name.len()).max().unwrap_or(0).min(44);
    let mut layer = None;
    let mut lines = Vec::new();
    for doc in docs {
        if layer.replace(doc.layer) != Some(doc.layer) {
            lines.push(format!("{}:", doc.layer));
        }
        let default = match doc.unit.as_str() {
            "s" | "ms" | "us" | "min" if doc.default.parse::<f64>().is_ok() => {
                format!("{} {}", doc.default, doc.unit)
            }
            _ => doc.default.clone(),
        };
        lines.push(short(&format!("  {:<width$}  [{default}] {}", doc.name, doc.effect)));
    }
    print(&lines.join("\n"));
    tell(&format!(
        "\n{} settings, [default]; `ringbreaker settings NAME` explains one",
        docs.len()
    ));
}

/// One line of it.
fn short(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let kept: String = text.chars().take(WIDTH - 3).collect();
    format!("{}...", kept.trim_end())
}

/// Everything about a setting.
fn explanation(doc: &SettingDoc) -> String {
    let facts = settings::facts(doc);
    let column = facts.iter().map(|(what, _)| what.len()).max().unwrap_or(0) + 4;
    let mut lines = vec![doc.name.clone()];
    lines.extend(wrapped(&doc.effect, 2, 2));
    for (what, text) in facts {
        let label = format!("  {what:<width$}", width = column - 2);
        let mut rest = wrapped(&text, column, column);
        if let Some(first) = rest.first_mut() {
            first.replace_range(..column, &label);
        }
        lines.extend(rest);
    }
    lines.join("\n")
}

/// Text in lines, indented.
fn wrapped(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = vec![" ".repeat(first)];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("invariant: there is a line");
        let used = line.chars().count();
        let empty = line.trim().is_empty();
        if !empty && used + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{}{word}", " ".repeat(rest)));
        } else {
            line.push_str(if empty { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_and_loses_none() {
        let text = "word ".repeat(60);
        let lines = wrapped(&text, 2, 4);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
        assert!(lines[0].starts_with("  word") && lines[1].starts_with("    word"));
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_nearest_one() {
        let error = find("NCCL_IB_TIMOUT").unwrap_err();
        assert_eq!(error.exit_code(), exit::USAGE);
        assert!(error.report().contains("did you mean NCCL_IB_TIMEOUT?"), "{}", error.report());
    }
}
