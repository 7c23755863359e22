//! Reads the embedded files.

use serde::Deserialize;

use super::{Layer, Reader, SettingDoc};

/// One subject a file.
const FILES: &[(&str, &str)] = &[
    ("rank", include_str!("rank.toml")),
    ("kernel", include_str!("kernel.toml")),
    ("connect", include_str!("connect.toml")),
    ("infiniband", include_str!("infiniband.toml")),
    ("transport", include_str!("transport.toml")),
    ("tuning", include_str!("tuning.toml")),
    ("observation", include_str!("observation.toml")),
    ("pytorch", include_str!("pytorch.toml")),
    ("gloo", include_str!("gloo.toml")),
    ("launcher", include_str!("launcher.toml")),
    ("nobody", include_str!("nobody.toml")),
];

/// A file: what holds for all its settings, then the settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    layer: Layer,
    readers: Vec<Reader>,
    setting: Vec<SettingDoc>,
}

pub(super) fn all() -> Vec<SettingDoc> {
    FILES.iter().flat_map(|(name, text)| of_file(name, text)).collect()
}

fn of_file(name: &str, text: &str) -> Vec<SettingDoc> {
    let file: File = toml::from_str(text)
        .unwrap_or_else(|error| panic!("invariant, a test reads it: {name}.toml: {error}"));
    let File { layer, readers, setting } = file;
    let complete = |mut doc: SettingDoc| {
        doc.layer = layer;
        if doc.readers.is_empty() {
            doc.readers.clone_from(&readers);
        }
        doc
    };
    setting.into_iter().map(complete).collect()
}
