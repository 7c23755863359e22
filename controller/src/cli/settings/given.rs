//! The settings that are to be looked at: named with a value, of a file, or of the environment.

use std::{collections::BTreeMap, env};

use ringbreaker_scenarios::settings;

use super::SettingsArgs;
use crate::error::{Error, Expected};

/// The settings, by name; those that are named add to those of a file.
pub(super) fn settings(args: &SettingsArgs) -> Result<BTreeMap<String, String>, Error> {
    let mut given = match &args.env_file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|source| Expected::Environment {
                what: format!("reading {}", path.display()),
                source: Box::new(source),
            })?;
            settings::env_file(&text).map_err(|problem| Expected::Argument {
                given: path.display().to_string(),
                what: "usable environment file",
                help: problem.to_string(),
            })?
        }
        None if args.names.is_empty() => environment(),
        None => BTreeMap::new(),
    };
    for word in &args.names {
        let pair = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| Expected::Argument {
            given: word.clone(),
            what: "setting with its value",
            help: "write NAME=VALUE, such as NCCL_IB_TIMEOUT=22".to_owned(),
        })?;
        given.insert(name.to_owned(), value.to_owned());
    }
    Ok(given)
}

/// This process's environment; what is no text is not for NCCL or PyTorch.
pub(super) fn environment() -> BTreeMap<String, String> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
