//! The catalogue: one entry a name, from the TOML files beside this one, one file a subject.
//!
//! The files are the only place where something is said about a setting; checks, the ladder, the
//! findings about unread names, `ringbreaker settings` and docs/settings.md are made from them.

mod load;

use std::{fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};

use super::{own, version::Version};

static CATALOGUE: LazyLock<Vec<SettingDoc>> = LazyLock::new(load::all);

/// What is known about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingDoc {
    /// Its name.
    pub name: String,
    /// What else it is called, such as a sysctl's full name.
    #[serde(default)]
    pub aka: Vec<String>,
    /// Which layer it belongs to.
    #[serde(skip_deserializing)]
    pub layer: Layer,
    /// How it is given.
    #[serde(default)]
    pub given: Given,
    /// Who reads it; nobody, if empty.
    #[serde(default)]
    pub readers: Vec<Reader>,
    /// What kind of value it takes.
    pub kind: Kind,
    /// Unit of a bare number; empty where there is none.
    #[serde(default)]
    pub unit: String,
    /// What holds when it is not set, in the newest version.
    pub default: String,
    /// What is to be said about that.
    #[serde(default)]
    pub default_note: String,
    /// What the default was, by version, the oldest first.
    #[serde(default)]
    pub earlier: Vec<Earlier>,
    /// The smallest number that makes sense.
    #[serde(default)]
    pub min: Option<i64>,
    /// The largest.
    #[serde(default)]
    pub max: Option<i64>,
    /// All words there are.
    #[serde(default)]
    pub words: Vec<String>,
    /// Numbers beyond these bounds are valid and rarely meant: a wrong unit, most likely.
    #[serde(default)]
    pub usual: Option<(i64, i64)>,
    /// What may be written, where bounds and words do not say it.
    #[serde(default)]
    pub valid: String,
    /// The first version that reads it, as far as known, perhaps with a remark; empty: not known.
    #[serde(default)]
    pub since: String,
    /// The first version that no longer reads it, as far as known, perhaps with a remark.
    #[serde(default)]
    pub gone: Option<String>,
    /// The name that should be used in place of this one.
    #[serde(default)]
    pub replaced_by: Option<String>,
    /// The first version that knows that other name; none: all that matter.
    #[serde(default)]
    pub renamed: Option<String>,
    /// What does what people expect of a name that nothing reads.
    #[serde(default)]
    pub instead: Option<String>,
    /// When its value is read.
    pub read_at: ReadAt,
    /// What it does.
    pub effect: String,
    /// What happens when it acts: messages, codes, signals. Empty: nothing of the kind.
    #[serde(default)]
    pub fires: String,
    /// Where all this is known from.
    pub source: String,
}

/// What a default was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// Up to and with this version.
    pub until: String,
    /// The value.
    pub value: String,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal, $says:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// As it is written on the command line and in JSON.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// As people say it.
            pub const fn says(self) -> &'static str {
                match self { $($name::$variant => $says,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.says())
            }
        }
    };
}

words! {
    /// The layer that a setting acts in.
    #[derive(Default)]
    Layer {
        /// ringbreaker's rank: its watchdog, or what the controller tells all ranks.
        Rank = "rank", "ringbreaker's rank";
        /// The kernel: limits of a node and its ranks.
        Kernel = "kernel", "kernel";
        /// NCCL.
        Nccl = "nccl", "NCCL";
        /// PyTorch's process groups, watchdog, recorder and store.
        Pytorch = "pytorch", "PyTorch";
        /// Gloo.
        Gloo = "gloo", "Gloo";
        /// Launchers and frameworks.
        Launcher = "launcher", "launchers and frameworks";
        /// No library: the name is believed in, or read by scripts alone.
        #[default]
        Nobody = "nobody", "nobody";
    }
}

words! {
    /// Who reads a setting.
    Reader {
        /// NCCL.
        Libnccl = "libnccl", "libnccl";
        /// PyTorch's older implementation of the backend `nccl`.
        ProcessGroupNccl = "process-group-nccl", "PyTorch's ProcessGroupNCCL";
        /// PyTorch's newer one.
        Nccl2 = "nccl2", "PyTorch's nccl2";
        /// PyTorch besides these two.
        Pytorch = "pytorch", "PyTorch";
        /// Gloo.
        Gloo = "gloo", "gloo";
        /// torchrun and its agent.
        Torchrun = "torchrun", "torchrun";
        /// DeepSpeed.
        Deepspeed = "deepspeed", "DeepSpeed";
        /// Megatron-LM.
        MegatronLm = "megatron-lm", "Megatron-LM";
        /// Accelerate.
        Accelerate = "accelerate", "Accelerate";
        /// Lightning.
        Lightning = "lightning", "Lightning";
        /// NVIDIA's resiliency extension.
        Nvrx = "nvrx", "NVRx";
        /// Horovod.
        Horovod = "horovod", "Horovod";
        /// The CUDA driver and runtime.
        Cuda = "cuda", "CUDA";
        /// The kernel.
        Kernel = "kernel", "the kernel";
        /// ringbreaker's rank.
        Rank = "rank", "ringbreaker's rank";
        /// ringbreaker's host stand-in, which does as NCCL does.
        HostStandIn = "host-stand-in", "the host stand-in";
        /// Users' scripts.
        Scripts = "scripts", "some training scripts";
    }
}

words! {
    /// How a setting is given.
    #[derive(Default)]
    Given {
        /// An environment variable.
        #[default]
        Environment = "environment", "environment variable";
        /// An argument of a function or command.
        Argument = "argument", "argument of a call or command";
        /// A sysctl.
        Sysctl = "sysctl", "sysctl";
        /// A limit of a process, cgroup or file system.
        Limit = "limit", "limit of a node or rank";
        /// An option of a socket.
        SocketOption = "socket-option", "socket option";
        /// A line under `[settings]` of a scenario.
        Scenario = "scenario", "line under [settings] of a scenario";
    }
}

words! {
    /// What kind of value a setting takes.
    Kind {
        /// On or off.
        Bool = "bool", "on or off";
        /// A whole number.
        Integer = "integer", "number";
        /// A length of time.
        Duration = "duration", "time";
        /// A number of bytes.
        Size = "size", "size";
        /// One of a few words.
        Word = "word", "word";
        /// Anything else.
        Text = "text", "text";
    }
}

words! {
    /// When a value is read.
    ReadAt {
        /// Once a process, at the first use of the library.
        ProcessStart = "process-start", "once a process, at the first use";
        /// While a communicator or process group is made; for NCCL the first one decides, mostly.
        CommunicatorCreate = "communicator-create", "while a communicator or group is made";
        /// When it acts.
        WhenItActs = "when-it-acts", "when it acts";
        /// That is not known.
        NotKnown = "not-known", "at a moment that is not known";
        /// By nobody, so at no time.
        Never = "never", "never";
    }
}

impl SettingDoc {
    /// What holds when it is not set, in a version of the library that reads it.
    pub fn default_in(&self, version: Option<Version>) -> &str {
        let past = |earlier: &&Earlier| {
            version.is_some_and(|v| Version::last(&earlier.until).is_some_and(|until| v <= until))
        };
        self.earlier.iter().find(past).map_or(&self.default, |earlier| &earlier.value)
    }

    /// Whether a version reads it; none: not known. Of a release that is only known as "or earlier",
    /// nothing follows for versions before it.
    pub fn is_read_in(&self, version: Version) -> Option<bool> {
        let reached = |text: &str| {
            let reached = version >= Version::first(text)?;
            (reached || !text.contains(" or ")).then_some(reached)
        };
        let gone = self.gone.as_deref().map_or(Some(false), reached);
        match (reached(&self.since), gone) {
            (_, Some(true)) | (Some(false), _) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        }
    }

    /// Whether this setting is called so.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aka.iter().any(|other| other == name)
    }

    /// Whether somebody of these reads it.
    pub fn is_read_by(&self, readers: &[Reader]) -> bool {
        self.readers.iter().any(|reader| readers.contains(reader))
    }

    /// Who reads it, as a sentence has it.
    pub fn readers_in_words(&self) -> String {
        match self.readers.as_slice() {
            [] => "nobody".to_owned(),
            readers => readers.iter().map(|r| r.says()).collect::<Vec<_>>().join(", "),
        }
    }

    /// What may be written.
    pub fn valid_in_words(&self) -> String {
        if let Some(own) = own::find(&self.name) {
            return own.form.wanted();
        }
        if !self.valid.is_empty() {
            return self.valid.clone();
        }
        if !self.words.is_empty() {
            return self.words.join(", ");
        }
        match (self.kind, self.min, self.max) {
            (Kind::Bool, ..) if self.is_read_by(&[Reader::ProcessGroupNccl, Reader::Nccl2]) => {
                "1, y, yes, t, true or 0, n, no, f, false".to_owned()
            }
            (Kind::Bool, ..) => "0 or 1".to_owned(),
            (_, Some(min), Some(max)) => format!("{min} to {max}"),
            (_, Some(min), None) => format!("from {min}"),
            (_, None, Some(max)) => format!("up to {max}"),
            (Kind::Text, None, None) => "text".to_owned(),
            (_, None, None) => "a whole number".to_owned(),
        }
    }

    /// Whether a search for this text finds it: in its names, effect, or what happens when it acts.
    pub fn mentions(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let names = std::iter::once(&self.name).chain(&self.aka);
        let texts = [&self.effect, &self.fires, &self.default_note];
        names.chain(texts).any(|hay| hay.to_lowercase().contains(&wanted))
    }
}

/// Everything that is known, in the order of the files.
pub fn all() -> &'static [SettingDoc] {
    &CATALOGUE
}

/// What is known about the setting of this name.
pub fn lookup(name: &str) -> Option<&'static SettingDoc> {
    all().iter().find(|doc| doc.is_called(name))
}

/// Older names of a setting.
pub fn older_names(name: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    all()
        .iter()
        .filter(move |doc| doc.replaced_by.as_deref() == Some(name))
        .map(|doc| doc.name.as_str())
}

#[cfg(test)]
mod tests;
