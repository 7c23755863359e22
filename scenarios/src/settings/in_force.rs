//! Which of several values of a setting holds, and where it comes from.
//!
//! NCCL reads its environment first, then a file of the user's, then one of the machine's, and never
//! sets what is set (initEnvFunc and setEnvFile in src/misc/param.cc of 2.30). PyTorch and the others
//! read the environment alone.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Layer, Version, Versions, lookup};

/// The machine's file.
const MACHINE: &str = "/etc/nccl.conf";
/// The user's file, in the home directory that the user database names (not $HOME).
const USER: &str = ".nccl.conf";
/// The first version that heeds NCCL_CONF_FILE.
const CONF_FILE_SINCE: &str = "2.23";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The environment.
    Environment,
    /// A file that NCCL reads.
    File(String),
    /// The kernel says so.
    Kernel,
    /// Nothing sets it.
    Default,
}

/// The value that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InForce {
    /// The value, as typed.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Values that it hides.
    pub hidden: Vec<(Origin, String)>,
    /// What else is to be said; empty: nothing.
    pub remark: String,
}

/// A file that NCCL reads, read as NCCL does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfFile {
    /// Its path.
    pub path: String,
    /// Its settings.
    pub settings: BTreeMap<String, String>,
}

/// Everything that may set something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The files, in the order in which NCCL reads them.
    pub files: Vec<ConfFile>,
    /// What the kernel says, by name.
    pub kernel: BTreeMap<String, String>,
}

/// The files that NCCL reads, in its order. With NCCL_CONF_FILE set, the one in the home directory is
/// not tried, even where the named one cannot be read.
pub fn conf_paths(
    environment: &BTreeMap<String, String>,
    home: Option<&str>,
    nccl: Option<Version>,
) -> Vec<String> {
    let heeded = nccl.is_none_or(|v| Version::first(CONF_FILE_SINCE).is_some_and(|s| v >= s));
    let named = environment.get("NCCL_CONF_FILE").filter(|path| heeded && !path.is_empty());
    let own = || home.map(|home| format!("{home}/{USER}"));
    named.cloned().or_else(own).into_iter().chain([MACHINE.to_owned()]).collect()
}

impl Sources {
    /// The value of a setting that holds; none: nothing sets it, and no default is known.
    pub fn in_force(&self, name: &str, versions: Versions) -> Option<InForce> {
        let doc = lookup(name);
        let names = || doc.iter().flat_map(|doc| &doc.aka).map(String::as_str);
        let called = || std::iter::once(name).chain(names());
        if let Some(value) = called().find_map(|name| self.kernel.get(name)) {
            return Some(InForce::new(value, Origin::Kernel));
        }
        let of_nccl = doc.map_or(name.starts_with("NCCL_"), |doc| doc.layer == Layer::Nccl);
        let from_files = self.files.iter().filter_map(|file| {
            let value = file.settings.get(name)?;
            Some((Origin::File(file.path.clone()), value.clone()))
        });
        let set = self.environment.get(name).map(|value| (Origin::Environment, value.clone()));
        let mut values = set.into_iter().chain(from_files.filter(|_| of_nccl));
        let default = doc.map(|doc| doc.default_in(versions.of(doc)).to_owned());
        let Some((origin, value)) = values.next() else {
            return default.map(|default| InForce::new(&default, Origin::Default));
        };
        let mut found = InForce::new(&value, origin);
        found.hidden = values.collect();
        if value.is_empty() && of_nccl {
            // It is set, so that no file sets it again; and it is empty, so that it does not count.
            found.remark = format!("{}: set and empty, which counts as not set", found.from());
            found.origin = Origin::Default;
            found.value = default.unwrap_or_default();
        }
        Some(found)
    }
}

impl Sources {
    /// Everything that somebody set, with the value that holds.
    pub fn set(&self) -> BTreeMap<String, String> {
        let files = self.files.iter().flat_map(|file| file.settings.keys());
        self.environment
            .keys()
            .chain(files)
            .filter_map(|name| Some((name, self.in_force(name, Versions::default())?)))
            .filter(|(_, found)| !matches!(found.origin, Origin::Kernel))
            .filter(|(_, found)| found.origin != Origin::Default || !found.remark.is_empty())
            .map(|(name, found)| {
                let empty = found.origin == Origin::Default;
                (name.clone(), if empty { String::new() } else { found.value })
            })
            .collect()
    }

    /// The kernel's own values, where they differ from what it has by default.
    pub fn kernel_set(&self) -> BTreeMap<String, String> {
        let differs = |(name, value): &(&String, &String)| {
            lookup(name).is_some_and(|doc| doc.name == **name && doc.default != **value)
        };
        let set = self.kernel.iter().filter_map(|(name, value)| Some((&lookup(name)?.name, value)));
        set.filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl InForce {
    fn new(value: &str, origin: Origin) -> InForce {
        InForce { value: value.to_owned(), origin, hidden: Vec::new(), remark: String::new() }
    }

    /// Where it comes from, as a word.
    pub fn from(&self) -> String {
        self.origin.to_string()
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => f.write_str(path),
            Origin::Kernel => f.write_str("kernel"),
            Origin::Default => f.write_str("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn sources(
        environment: &[(&str, &str)],
        user: &[(&str, &str)],
        machine: &[(&str, &str)],
    ) -> Sources {
        let file = |path: &str, list| ConfFile { path: path.to_owned(), settings: pairs(list) };
        Sources {
            environment: pairs(environment),
            files: vec![file("user", user), file("machine", machine)],
            kernel: pairs(&[("net.ipv4.tcp_retries2", "8")]),
        }
    }

    #[test]
    fn the_environment_wins_over_files_and_the_first_file_over_the_second() {
        let set = [("NCCL_DEBUG", "A")];
        for (environment, user, machine, want, origin) in [
            (&set[..], &set[..], &set[..], "A", Origin::Environment),
            (&[], &[("NCCL_DEBUG", "U")], &set, "U", Origin::File("user".into())),
            (&[], &[], &[("NCCL_DEBUG", "M")], "M", Origin::File("machine".into())),
            (&[], &[], &[], "unset", Origin::Default),
        ] {
            let sources = sources(environment, user, machine);
            let found = sources.in_force("NCCL_DEBUG", Versions::default()).unwrap();
            assert_eq!((found.value.as_str(), &found.origin), (want, &origin), "{found:?}");
        }
        let hidden = sources(&set, &[("NCCL_DEBUG", "U")], &[]);
        let hidden = hidden.in_force("NCCL_DEBUG", Versions::default()).unwrap().hidden;
        assert_eq!(hidden, [(Origin::File("user".into()), "U".to_owned())]);
    }

    #[test]
    fn an_empty_variable_counts_as_unset_and_still_keeps_files_out() {
        let sources = sources(&[("NCCL_IB_TIMEOUT", "")], &[("NCCL_IB_TIMEOUT", "22")], &[]);
        let old = Versions { nccl: Version::first("2.18.5"), torch: None };
        let found = sources.in_force("NCCL_IB_TIMEOUT", old).unwrap();
        assert_eq!((found.value.as_str(), found.origin), ("18", Origin::Default));
        assert!(found.remark.contains("environment: set and empty"), "{}", found.remark);
    }

    #[test]
    fn files_are_for_nccl_alone_and_the_kernel_speaks_for_itself() {
        let sources = sources(&[], &[("TORCH_NCCL_BLOCKING_WAIT", "1"), ("NCCL_NEW", "1")], &[]);
        let of = |name: &str| sources.in_force(name, Versions::default());
        assert_eq!(of("TORCH_NCCL_BLOCKING_WAIT").unwrap().origin, Origin::Default);
        assert_eq!(of("NCCL_NEW").unwrap().value, "1");
        assert_eq!(of("NCCL_NEWER"), None);
        assert_eq!(of("tcp_retries2").unwrap().origin, Origin::Kernel);
    }

    #[test]
    fn what_is_set_is_what_holds_of_environment_and_files_and_what_the_kernel_has_otherwise() {
        let sources = sources(
            &[("NCCL_DEBUG", "A"), ("PATH", "/bin"), ("NCCL_ALGO", "")],
            &[("NCCL_DEBUG", "U"), ("NCCL_ALGO", "Ring"), ("TORCH_NCCL_NAN_CHECK", "1")],
            &[("NCCL_PROTO", "LL")],
        );
        let set = pairs(&[
            ("NCCL_DEBUG", "A"),
            ("PATH", "/bin"),
            ("NCCL_ALGO", ""),
            ("NCCL_PROTO", "LL"),
        ]);
        assert_eq!(sources.set(), set);
        assert_eq!(sources.kernel_set(), pairs(&[("tcp_retries2", "8")]));
    }

    #[test]
    fn the_named_file_takes_the_place_of_the_users_own_from_2_23_on() {
        let named = pairs(&[("NCCL_CONF_FILE", "/x")]);
        let paths = |environment: &BTreeMap<String, String>, version: &str| {
            conf_paths(environment, Some("/root"), Version::first(version))
        };
        assert_eq!(paths(&named, "2.28.9"), ["/x", "/etc/nccl.conf"]);
        assert_eq!(paths(&named, "2.22.3"), ["/root/.nccl.conf", "/etc/nccl.conf"]);
        assert_eq!(paths(&pairs(&[]), "2.28.9"), ["/root/.nccl.conf", "/etc/nccl.conf"]);
        let empty = pairs(&[("NCCL_CONF_FILE", "")]);
        assert_eq!(conf_paths(&empty, None, None), ["/etc/nccl.conf"]);
    }
}
