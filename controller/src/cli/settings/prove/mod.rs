//! `settings --prove`: which names the libraries of this machine contain, what is in force, and where
//! it comes from.

mod libraries;
mod remark;
mod show;

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use ringbreaker_agent::rank::nccl::names::Trace;
use ringbreaker_scenarios::settings::{self, Given, InForce, SettingDoc, Versions};
use serde::Serialize;

use self::libraries::Library;
use super::{Page, SettingsArgs, catalogue, given};
use crate::{
    cli::documents::{print_json, tell},
    error::{Error, Expected},
    exit,
};

/// What was looked at, and what was found.
#[derive(Debug, Serialize)]
struct Proof {
    libraries: Vec<LibraryProof>,
    /// The files that NCCL would read, and whether they are there.
    files: Vec<(String, bool)>,
    settings: Vec<SettingProof>,
}

/// A library, or that there is none.
#[derive(Debug, Serialize)]
struct LibraryProof {
    what: &'static str,
    title: String,
    /// The first of its files; none: it is not on this machine.
    path: Option<String>,
    remark: String,
}

/// What is known about one setting here.
#[derive(Debug, Serialize)]
struct SettingProof {
    name: String,
    /// By library, in the order of the libraries: how the name stands in it; none: it is not here.
    contained: Vec<Option<Trace>>,
    in_force: Option<InForce>,
    /// Where this differs from the catalogue, or what is to be said.
    remark: String,
}

/// Looks, and prints.
pub(super) fn main(args: &SettingsArgs) -> Result<u8, Error> {
    let found = [
        libraries::nccl(&args.nccl),
        libraries::torch(args.torch.as_deref()).map_err(|help| Expected::Argument {
            given: args.torch.as_deref().unwrap_or(Path::new("python3")).display().to_string(),
            what: "PyTorch that can be looked into",
            help,
        })?,
    ];
    let [nccl, torch] = found;
    let gloo = libraries::gloo(torch.as_ref());
    let libraries = [("libnccl", nccl), ("PyTorch", torch), ("gloo", gloo)];
    let proof = proof(args, &libraries)?;
    match args.format {
        Page::Json => {
            let json = serde_json::to_value(&proof);
            print_json(&json.expect("invariant: a proof has only string keys"));
        }
        _ => show::print(&proof),
    }
    Ok(exit::PASS)
}

fn proof(
    args: &SettingsArgs,
    libraries: &[(&'static str, Option<Library>); 3],
) -> Result<Proof, Error> {
    let names = names(args)?;
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut contained: Vec<Option<Vec<Trace>>> = Vec::new();
    for (_, library) in libraries {
        contained.push(library.as_ref().map(|library| look(library, &asked)).transpose()?);
    }
    let version = |at: usize| libraries[at].1.as_ref().and_then(Library::number);
    let versions = Versions {
        nccl: args.nccl_version.or_else(|| version(0)),
        torch: args.torch_version.or_else(|| version(1)),
    };
    let (sources, files) = given::sources(versions.nccl);
    let with_nccl = libraries[1].1.as_ref().is_some_and(Library::is_built_with_nccl);
    let settings = names.iter().enumerate().map(|(at, name)| {
        let in_library = |found: &Option<Vec<Trace>>| found.as_ref().map(|found| found[at]);
        let sysctl = settings::lookup(name).is_some_and(|doc| doc.given == Given::Sysctl);
        let contained: Vec<Option<Trace>> =
            contained.iter().map(|found| in_library(found).filter(|_| !sysctl)).collect();
        let in_force = sources.in_force(name, versions);
        let here = remark::Here { nccl: contained[0], torch: contained[1], with_nccl, versions };
        let remark = remark::about(name, here, in_force.as_ref());
        SettingProof { name: name.clone(), contained, in_force, remark }
    });
    let libraries = libraries.iter().map(|(what, library)| LibraryProof {
        what,
        title: library.as_ref().map_or_else(|| (*what).to_owned(), Library::title),
        path: library.as_ref().and_then(|l| l.files.first()).map(|p| p.display().to_string()),
        remark: library.as_ref().map(|l| l.remark.clone()).unwrap_or_default(),
    });
    Ok(Proof { settings: settings.collect(), libraries: libraries.collect(), files })
}

fn look(library: &Library, names: &[&str]) -> Result<Vec<Trace>, Error> {
    // A PyTorch with CUDA is more than a gigabyte.
    if io::stderr().is_terminal() {
        tell(&format!("looking into {} ...", library.title()));
    }
    libraries::contained(library, names).map_err(|(path, error)| {
        let what = format!("reading {}", path.display());
        Expected::Environment { what, source: Box::new(error) }.into()
    })
}

/// The names that are asked for, also such that nobody knows; else all of the catalogue that the
/// filters leave and that can be looked up.
fn names(args: &SettingsArgs) -> Result<Vec<String>, Error> {
    if !args.names.is_empty() {
        return Ok(args.names.clone());
    }
    let docs = catalogue::asked(args)?;
    let looked_up = |doc: &&SettingDoc| matches!(doc.given, Given::Environment | Given::Sysctl);
    Ok(docs.into_iter().filter(looked_up).map(|doc| doc.name.clone()).collect())
}
