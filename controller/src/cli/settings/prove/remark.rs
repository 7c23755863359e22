//! What a reader should know about one name of a proof: where the libraries differ from the catalogue,
//! what a value hides, what is odd about it. Pure.

use ringbreaker_agent::rank::nccl::names::Trace;
use ringbreaker_scenarios::settings::{
    self, InForce, Layer, Origin, Reader, SettingDoc, Version, Versions,
};

/// What was found of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    /// How it stands in libnccl; none: there is no libnccl.
    pub(super) nccl: Option<Trace>,
    /// How it stands in PyTorch.
    pub(super) torch: Option<Trace>,
    /// Whether that PyTorch is built with NCCL.
    pub(super) with_nccl: bool,
    /// Their versions.
    pub(super) versions: Versions,
}

/// Everything to be said, as one sentence; empty: nothing.
pub(super) fn about(name: &str, here: Here, in_force: Option<&InForce>) -> String {
    let mut remarks = match settings::lookup(name) {
        None => vec!["not in the catalogue".to_owned()],
        Some(doc) => differences(doc, here),
    };
    if let Some(in_force) = in_force {
        let hidden = in_force.hidden.iter();
        remarks.extend(hidden.map(|(from, value)| format!("hides {value} of {from}")));
        remarks.extend(Some(in_force.remark.clone()).filter(|remark| !remark.is_empty()));
        if matches!(in_force.origin, Origin::Environment | Origin::File(_)) {
            let odd = settings::check_one(name, &in_force.value, here.versions).into_iter();
            remarks.extend(odd.map(|odd| format!("{}; right: {}", odd.message, odd.right)));
        }
    }
    remarks.join("; ")
}

/// Where the bytes of the libraries and the catalogue say different things.
fn differences(doc: &SettingDoc, here: Here) -> Vec<String> {
    let torch: &[Reader] = match here.with_nccl {
        true => &[Reader::Pytorch, Reader::Torchrun, Reader::ProcessGroupNccl, Reader::Nccl2],
        false => &[Reader::Pytorch, Reader::Torchrun],
    };
    let looks = [
        ("libnccl", here.nccl, &[Reader::Libnccl][..], here.versions.nccl),
        ("PyTorch", here.torch, torch, here.versions.torch),
    ];
    let difference =
        |(what, found, readers, version): (&str, Option<Trace>, &[Reader], Option<Version>)| {
            let nobody = doc.layer == Layer::Nobody;
            if !nobody && !doc.is_read_by(readers) {
                return None;
            }
            match (found?, version.and_then(|version| doc.is_read_in(version))) {
                (Trace::Tail, _) => {
                    let shared = "only as the end of a longer name, whose bytes it may share";
                    Some(format!("{what} has it {shared}"))
                }
                (Trace::Whole, _) if nobody => {
                    Some(format!("{what} contains it, against the catalogue"))
                }
                (Trace::Whole, Some(false)) => Some(format!(
                    "{what} contains it, and the catalogue says: since {}{}",
                    doc.since,
                    doc.gone.as_ref().map(|gone| format!(", gone in {gone}")).unwrap_or_default()
                )),
                (Trace::Absent, Some(true)) if !nobody => {
                    Some(format!("{what} lacks it, and the catalogue says: since {}", doc.since))
                }
                _ => None,
            }
        };
    looks.into_iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(nccl: Option<Trace>, torch: Option<Trace>) -> Here {
        let versions = Versions { nccl: Version::first("2.28.9"), torch: Version::first("2.11.0") };
        Here { nccl, torch, with_nccl: true, versions }
    }

    #[test]
    fn differences_from_the_catalogue_are_told_and_agreement_is_not() {
        for (name, nccl, torch, part) in [
            ("NCCL_IB_TIMEOUT", Some(Trace::Whole), Some(Trace::Absent), ""),
            ("NCCL_IB_TIMEOUT", Some(Trace::Absent), Some(Trace::Absent), "libnccl lacks it"),
            ("NCCL_SOCKET_MAGIC", Some(Trace::Absent), None, ""),
            (
                "NCCL_SOCKET_MAGIC",
                Some(Trace::Whole),
                None,
                "libnccl contains it, and the catalogue says: since 2.30.7",
            ),
            ("NCCL_SOCKET_TIMEOUT", Some(Trace::Absent), Some(Trace::Absent), ""),
            ("NCCL_SOCKET_TIMEOUT", None, Some(Trace::Whole), "PyTorch contains it, against"),
            (
                "TORCH_NCCL_BLOCKING_WAIT",
                Some(Trace::Absent),
                Some(Trace::Absent),
                "PyTorch lacks it",
            ),
            ("TORCH_FR_DUMP_ON_TIMEOUT", None, Some(Trace::Absent), ""),
            ("NCCL_BLOCKING_WAIT", None, Some(Trace::Tail), "only as the end of a longer name"),
            ("NCCL_FOO", Some(Trace::Absent), None, "not in the catalogue"),
        ] {
            let remark = about(name, here(nccl, torch), None);
            assert_eq!(remark.is_empty(), part.is_empty(), "{name}: {remark}");
            assert!(remark.contains(part), "{name}: {remark}");
        }
    }

    #[test]
    fn a_pytorch_without_nccl_need_not_know_its_settings() {
        let without = Here { with_nccl: false, ..here(None, Some(Trace::Absent)) };
        assert_eq!(about("TORCH_NCCL_BLOCKING_WAIT", without, None), "");
    }

    #[test]
    fn an_odd_value_is_told_only_where_somebody_set_it() {
        let value = |origin| InForce {
            value: "600".to_owned(),
            origin,
            hidden: vec![(Origin::File("/etc/nccl.conf".into()), "22".into())],
            remark: String::new(),
        };
        let here = here(Some(Trace::Whole), None);
        let set = about("NCCL_IB_TIMEOUT", here, Some(&value(Origin::Environment)));
        assert!(set.contains("hides 22 of /etc/nccl.conf; an exponent"), "{set}");
        let default = about("NCCL_IB_TIMEOUT", here, Some(&value(Origin::Default)));
        assert_eq!(default, "hides 22 of /etc/nccl.conf");
    }
}
