//! The settings that are to be looked at: named with a value, of a file, or in force on this machine.

use std::{collections::BTreeMap, env, fs};

use ringbreaker_agent::sys;
use ringbreaker_scenarios::settings::{self, ConfFile, Given, Sources, Version};

use super::SettingsArgs;
use crate::error::{Error, Expected};

/// The settings, by name; those that are named add to those of a file. With neither, what is set in the
/// environment and in NCCL's files.
pub(super) fn settings(args: &SettingsArgs) -> Result<BTreeMap<String, String>, Error> {
    let mut given = match &args.env_file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|source| Expected::Environment {
                what: format!("reading {}", path.display()),
                source: Box::new(source),
            })?;
            settings::env_file(&text).map_err(|problem| Expected::Argument {
                given: path.display().to_string(),
                what: "usable environment file",
                help: problem.to_string(),
            })?
        }
        None if args.names.is_empty() => sources(args.nccl_version).0.set(),
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

/// What may set something on this machine, and which of NCCL's files are there.
pub(super) fn sources(nccl: Option<Version>) -> (Sources, Vec<(String, bool)>) {
    let environment = environment();
    let home = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let home = home.map(|user| user.dir.to_string_lossy().into_owned());
    let paths = settings::conf_paths(&environment, home.as_deref(), nccl);
    let mut files = Vec::new();
    let mut there = Vec::new();
    for path in paths {
        let text = fs::read(&path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        there.push((path.clone(), text.is_some()));
        files.extend(text.map(|text| ConfFile { path, settings: settings::conf_file(&text) }));
    }
    (Sources { environment, files, kernel: kernel() }, there)
}

/// The sysctls of the catalogue, as this network namespace has them.
fn kernel() -> BTreeMap<String, String> {
    let sysctls = settings::all().iter().filter(|doc| doc.given == Given::Sysctl);
    let names = sysctls.flat_map(|doc| std::iter::once(&doc.name).chain(&doc.aka));
    names
        .filter_map(|name| Some((name.clone(), sys::sysctl::read(name).ok()?.replace('\t', " "))))
        .collect()
}

/// This process's environment; what is no text is not for NCCL or PyTorch.
fn environment() -> BTreeMap<String, String> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
