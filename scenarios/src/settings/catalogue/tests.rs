//! What every entry must hold to.

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_setting_of_ringbreaker_is_explained_and_nothing_else_is_called_its_own() {
    for own in own::OWN {
        assert!(lookup(own.name).is_some(), "{} has no entry", own.name);
    }
    for doc in all().iter().filter(|doc| doc.layer == Layer::Rank) {
        assert!(own::is_own(&doc.name), "{} is none of the rank's settings", doc.name);
    }
}

#[test]
fn no_name_is_explained_twice_and_no_explanation_is_empty() {
    let mut names = BTreeSet::new();
    for doc in all() {
        for name in std::iter::once(&doc.name).chain(&doc.aka) {
            assert!(names.insert(name), "{name} is there twice");
        }
        for text in [&doc.default, &doc.effect, &doc.source] {
            assert!(!text.is_empty(), "{} lacks something", doc.name);
        }
    }
}

#[test]
fn words_versions_and_references_can_be_used() {
    for doc in all() {
        let name = &doc.name;
        assert_eq!(doc.kind == Kind::Word, !doc.words.is_empty(), "{name}: words");
        let versions = doc.earlier.iter().map(|e| &e.until).chain(&doc.gone).chain(&doc.renamed);
        for version in versions {
            assert!(Version::last(version).is_some(), "{name}: {version} is no version");
        }
        let untils: Vec<_> = doc.earlier.iter().map(|e| Version::last(&e.until)).collect();
        assert!(untils.is_sorted(), "{name}: earlier defaults come the oldest first");
        let since = doc.since.is_empty() || Version::first(&doc.since).is_some();
        assert!(since, "{name}: since begins with a version, or is not known");
        if let Some(other) = &doc.replaced_by {
            let other = lookup(other).unwrap_or_else(|| panic!("{name}: there is no {other}"));
            assert!(other.replaced_by.is_none(), "{name}: {} is replaced too", other.name);
        }
        let bounds = (doc.min.unwrap_or(i64::MIN), doc.max.unwrap_or(i64::MAX));
        assert!(bounds.0 <= bounds.1, "{name}: bounds");
        let usual = doc.usual.unwrap_or(bounds);
        assert!(bounds.0 <= usual.0 && usual.1 <= bounds.1, "{name}: usual lies within bounds");
    }
}

#[test]
fn what_nobody_reads_says_what_would_do_instead_and_is_never_read() {
    for doc in all() {
        let name = &doc.name;
        assert_eq!(doc.layer == Layer::Nobody, doc.read_at == ReadAt::Never, "{name}");
        assert_eq!(doc.layer == Layer::Nobody, doc.instead.is_some(), "{name}");
        let read = doc.readers.iter().any(|reader| *reader != Reader::Scripts);
        let expected = doc.layer != Layer::Nobody || name == "NCCL_TIMEOUT";
        assert!(read == expected || doc.readers == [Reader::Scripts], "{name}: {:?}", doc.readers);
    }
}

#[test]
fn environment_variables_are_written_as_such() {
    for doc in all().iter().filter(|doc| doc.given == Given::Environment) {
        let right = |ch: char| ch.is_ascii_uppercase() || ch.is_ascii_digit() || ch == '_';
        assert!(doc.name.chars().all(right), "{}: no environment variable", doc.name);
    }
}

#[test]
fn a_default_is_that_of_the_version() {
    let of = |name: &str, version: &str| {
        lookup(name).unwrap().default_in(Version::first(version)).to_owned()
    };
    for (version, want) in [("2.8.4", "14"), ("2.18.5", "18"), ("2.22.3", "18"), ("2.28.9", "20")] {
        assert_eq!(of("NCCL_IB_TIMEOUT", version), want, "{version}");
    }
    for (version, want) in [("2.2.1", "120"), ("2.4.0", "600"), ("2.11.0", "480")] {
        assert_eq!(of("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", version), want, "{version}");
    }
    assert_eq!(lookup("NCCL_IB_TIMEOUT").unwrap().default_in(None), "20");
}

#[test]
fn a_setting_is_found_by_each_of_its_names_and_by_what_it_is_about() {
    assert_eq!(lookup("net.ipv4.tcp_retries2"), lookup("tcp_retries2"));
    assert!(lookup("NCCL_NO_SUCH_THING").is_none());
    let older: Vec<_> = older_names("TORCH_NCCL_BLOCKING_WAIT").collect();
    assert_eq!(older, ["NCCL_BLOCKING_WAIT"]);
    assert!(lookup("NCCL_IB_TIMEOUT").unwrap().mentions("QUEUE PAIR"));
    assert!(!lookup("NCCL_IB_TIMEOUT").unwrap().mentions("heartbeat"));
}

#[test]
fn whether_a_version_reads_it_is_said_only_where_it_is_known() {
    for (name, version, want) in [
        ("NCCL_SOCKET_RETRY_CNT", "2.28.9", Some(true)),
        ("NCCL_SOCKET_RETRY_CNT", "2.18.5", Some(false)),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "2.11", Some(true)),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "2.3", None),
        ("TORCH_NCCL_PROPAGATE_ERROR", "2.6", None),
        ("ENABLE_NCCL_HEALTH_CHECK", "2.15", Some(false)),
        ("ENABLE_NCCL_HEALTH_CHECK", "2.4", None),
        ("TORCH_NCCL_AVOID_RECORD_STREAMS", "2.11", Some(true)),
        ("TP_SOCKET_IFNAME", "2.11", None),
    ] {
        let read = lookup(name).unwrap().is_read_in(Version::first(version).unwrap());
        assert_eq!(read, want, "{name} {version}");
    }
}
