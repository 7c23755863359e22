//! What was typed, made ready: scenario read, settings replaced, paths absolute.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use ringbreaker_scenarios::{
    plan,
    scenario::{Scenario, Setting},
    units::Nanos,
};

use crate::{
    cli::{
        args::{Listing, MannerArgs, PlanArgs},
        documents,
    },
    error::{Error, Expected},
};

/// The seed when none is given: `show` and `run` agree, and so do two runs.
pub(crate) const DEFAULT_SEED: u64 = 1;

/// Where agents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agents {
    /// Children, so many at most; none: as many as are useful.
    Children { lanes: Option<u32> },
    /// So many that users start, dialling this address.
    Guests { listen: SocketAddr, wanted: u32 },
}

/// How a run is carried out and told about.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) agents: Agents,
    pub(crate) nccl: Vec<PathBuf>,
    pub(crate) private_mps: bool,
    pub(crate) lease: Nanos,
    /// Directory of all runs, absolute.
    pub(crate) dir: PathBuf,
    /// Where recordings go, absolute.
    pub(crate) record: Option<PathBuf>,
    /// Where agents journal, absolute.
    pub(crate) state: PathBuf,
    pub(crate) quiet: bool,
    pub(crate) format: Listing,
}

/// Makes the arguments about manner ready.
pub(crate) fn manner(args: MannerArgs, agents: Agents) -> Result<Manner, Error> {
    // Shorter than that, a busy machine loses agents that are well.
    let shortest = Nanos::from_secs(1);
    if args.lease < shortest {
        return Err(Expected::Argument {
            given: args.lease.to_string(),
            what: "usable lease",
            help: format!("agents need at least {shortest}"),
        }
        .into());
    }
    let dir = args.dir.dir;
    // Every node has a /dev/shm of its own, in which ranks would look for their files in vain.
    if absolute(&dir).starts_with("/dev/shm") {
        let help = "ranks do not see the machine's /dev/shm; choose another with --dir".to_owned();
        let given = dir.display().to_string();
        return Err(Expected::Argument { given, what: "directory for runs", help }.into());
    }
    std::fs::create_dir_all(&dir)
        .map_err(|source| Expected::RunsDirectory { path: dir.clone(), source })?;
    Ok(Manner {
        agents,
        nccl: args.nccl.nccl.iter().map(|path| absolute(path)).collect(),
        private_mps: args.mps,
        lease: args.lease,
        dir: absolute(&dir),
        record: args.record.as_deref().map(absolute),
        state: state_directory(args.state.state),
        quiet: args.quiet,
        format: args.format,
    })
}

/// Agents run elsewhere, so no path may depend on where we are.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where agents journal: what the user says, else the system's place for root, else the user's own.
pub(crate) fn state_directory(asked: Option<PathBuf>) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let own = || {
        variable("XDG_STATE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
            .unwrap_or_else(std::env::temp_dir)
            .join("ringbreaker")
    };
    let root = || nix::unistd::geteuid().is_root().then(|| "/var/lib/ringbreaker".into());
    absolute(&asked.or_else(root).unwrap_or_else(own))
}

/// A library name or a file, with `--set` applied.
pub(crate) fn scenario(name: &str, plan: &PlanArgs) -> Result<Scenario, Error> {
    let mut scenario = read_scenario(name)?;
    for (name, values) in sets(&plan.set)? {
        scenario.settings.retain(|setting| setting.name != name);
        scenario.settings.push(Setting { name, values });
    }
    Ok(scenario)
}

/// A library name or a file.
pub(crate) fn read_scenario(name: &str) -> Result<Scenario, Error> {
    let (file, text) = scenario_text(name)?;
    Scenario::parse(&file, &text).map_err(|problems| invalid(&problems))
}

/// The text behind a library name or a file name, with the name that problems carry.
pub(crate) fn scenario_text(name: &str) -> Result<(String, String), Error> {
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && !name.ends_with(".toml") {
        let shipped = ringbreaker_scenarios::library::find(name)
            .map_err(|unknown| Expected::UnknownScenario { unknown })?;
        return Ok((shipped.name.to_owned(), shipped.text.to_owned()));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| Expected::ScenarioUnreadable { path: path.to_owned(), source })?;
    Ok((name.to_owned(), text))
}

/// Problems as the error they are.
pub(crate) fn invalid(problems: &ringbreaker_scenarios::problem::Problems) -> Error {
    let rendered = problems.render(documents::color_on_stderr());
    Expected::ScenarioInvalid { rendered: rendered.trim_end().to_owned() }.into()
}

/// `NAME=VALUE` words by name; a name given twice is swept. Values are checked as a scenario's are.
fn sets(words: &[String]) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut sets: Vec<(String, Vec<String>)> = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Expected::Argument {
                given: word.clone(),
                what: "setting",
                help: "write --set NAME=VALUE, such as --set NCCL_TIMEOUT=5s".to_owned(),
            }
            .into());
        };
        check_setting(name, value)?;
        match sets.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(value.to_owned()),
            None => sets.push((name.to_owned(), vec![value.to_owned()])),
        }
    }
    Ok(sets)
}

/// Reads the setting as part of a scenario that says nothing else.
fn check_setting(name: &str, value: &str) -> Result<(), Error> {
    let text = format!(
        "summary = \"a setting\"\n[cluster]\nnodes = 2\nranks_per_node = 1\n[workload]\n\
         collective = \"all_reduce\"\nbytes = \"1 KiB\"\niterations = 1\n\
         [settings]\n{name:?} = {value:?}\n"
    );
    match Scenario::parse("--set", &text) {
        Ok(_) => Ok(()),
        Err(problems) => {
            let first = problems.iter().next();
            Err(Expected::Argument {
                given: format!("{name}={value}"),
                what: "right setting",
                help: first.map(|p| format!("{}: {}", p.message, p.right)).unwrap_or_default(),
            }
            .into())
        }
    }
}

/// What decides the plan; `default_backend` holds when neither the user nor the scenario says.
pub(crate) fn options(
    args: &PlanArgs,
    default_backend: ringbreaker_scenarios::words::Backend,
) -> plan::Options {
    plan::Options {
        seed: args.seed.unwrap_or(DEFAULT_SEED),
        backend: args.backend,
        default_backend,
        repetitions: args.repeat,
        // Reports name a case as `case=12`.
        only: args.only.iter().map(|f| f.replace("case=", "")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_given_twice_is_swept_and_values_are_checked() {
        let words = ["NCCL_TIMEOUT=2s", "error_handling=none", "NCCL_TIMEOUT=5s"];
        let read = sets(&words.map(str::to_owned)).unwrap();
        assert_eq!(read[0], ("NCCL_TIMEOUT".to_owned(), vec!["2s".to_owned(), "5s".to_owned()]));
        assert_eq!(read.len(), 2);
        for wrong in ["NCCL_TIMEOUT", "=2s", "error_handling=perhaps", "op_timeout=2 parsecs"] {
            let error = sets(&[wrong.to_owned()]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_scenario_is_refused_with_the_nearest_name() {
        let error = read_scenario("quik").unwrap_err();
        assert!(error.to_string().contains("quick"), "{error}");
    }

    #[test]
    fn state_is_kept_where_the_user_says() {
        assert_eq!(state_directory(Some("/x/y".into())), Path::new("/x/y"));
    }
}
