//! One row a slip that people make.

use proptest::prelude::*;

use super::*;

fn versions(nccl: &str, torch: &str) -> Versions {
    Versions { nccl: Version::first(nccl), torch: Version::first(torch) }
}

#[test]
fn each_slip_is_named_with_what_would_be_right() {
    use Oddity::*;
    for (name, value, oddity, message, right) in [
        ("NCCL_IB_RETRY_CNT", "15", OutOfRange, "out of range", "0 to 7 (retries)"),
        ("NCCL_IB_TIMEOUT", "600", WrongUnit, "cut to 88", "20 is 30.1 s"),
        ("NCCL_IB_TIMEOUT", "40", WrongUnit, "an exponent and no time", "1 to 31"),
        ("NCCL_SOCKET_RETRY_SLEEP_MSEC", "10s", ReadOtherwise, "read as 10", "10000 (the unit"),
        ("NCCL_SOCKET_RETRY_SLEEP_MSEC", "2", WrongUnit, "2ms", "2000, if it was meant in s"),
        ("NCCL_IB_DISABLE", "true", ReadOtherwise, "read as 0", "0 or 1"),
        ("NCCL_SOCKET_RETRY_CNT", "010", ReadOtherwise, "read as 8", "from 1 (retries)"),
        ("NCCL_SOCKET_RETRY_CNT", "", ReadOtherwise, "not set", "from 1"),
        ("NCCL_BUFFSIZE", "99999999999999999999", ReadOtherwise, "default holds", "from 1"),
        ("NCCL_DEBUG", "VERBOSE", OutOfRange, "not known", "INFO"),
        ("NCCL_SOCKET_TIMEOUT", "600", Unread, "no library reads it", "NCCL_SOCKET_RETRY_CNT"),
        ("NCCL_SOCKET_RETRY_COUNT", "3", Misspelt, "no such setting", "NCCL_SOCKET_RETRY_CNT"),
        (
            "NCCL_HEARTBEAT_TIMEOUT_SEC",
            "60",
            Misspelt,
            "no such",
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        ),
        ("NCCL_FROBNICATE", "1", Unknown, "not among", "--prove NCCL_FROBNICATE"),
        ("NCCL_BLOCKING_WAIT", "1", Deprecated, "older name", "TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_CHECK_POINTERS", "1", Deprecated, "older name", "NCCL_CHECK_MODE"),
        ("TORCH_NCCL_AVOID_RECORD_STREAMS", "1", OtherVersion, "2.15", "leave it out"),
        ("TORCH_NCCL_BLOCKING_WAIT", "on", Refused, "PyTorch refuses", "yes"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480000", WrongUnit, "133 hours", "480, if"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "ten", Refused, "no number", "from 1 (s)"),
        (
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
            "8m",
            ReadOtherwise,
            "read as 8",
            "480 (the unit is s)",
        ),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "4", OutOfRange, "out of range", "0, 1, 2, 3"),
        ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "15", WrongUnit, "15ms", "15000, if"),
        ("TCP_USER_TIMEOUT", "5000", Unread, "no environment variable", "socket option"),
        ("error_handling", "perhaps", Refused, "no value", "teardown"),
    ] {
        let remarks = check_one(name, value, Versions::default());
        let found = remarks.iter().any(|remark| {
            remark.oddity == oddity
                && remark.message.contains(message)
                && remark.right.contains(right)
        });
        assert!(found, "{name}={value}: {remarks:#?}");
    }
}

#[test]
fn what_is_right_or_none_of_our_business_is_passed_over() {
    for (name, value) in [
        ("NCCL_IB_TIMEOUT", "22"),
        ("NCCL_IB_RETRY_CNT", "7"),
        ("NCCL_DEBUG", "warn"),
        ("NCCL_CUMEM_ENABLE", "-2"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_SHM_DISABLE", "0x1"),
        ("NCCL_UID_STAGGER_RATE", "070"),
        ("TORCH_NCCL_BLOCKING_WAIT", "Yes"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("MASTER_PORT", "29500"),
        ("op_timeout", "2s"),
        ("tcp_retries2", "8"),
        ("PATH", "/usr/bin"),
        ("TIMEOUT", "5"),
        ("HOSTNAME", "a"),
        ("LD_LIBRARY_PATH", "/lib"),
    ] {
        let remarks = check_one(name, value, Versions::default());
        let octal = name == "NCCL_UID_STAGGER_RATE";
        assert_eq!(remarks.is_empty(), !octal, "{name}={value}: {remarks:#?}");
    }
}

#[test]
fn an_old_name_is_right_where_the_new_one_is_not_known_yet() {
    let old = check_one("NCCL_BLOCKING_WAIT", "1", versions("2.14.3", "1.13.1"));
    assert!(old.is_empty(), "{old:?}");
    let new = check_one("TORCH_NCCL_BLOCKING_WAIT", "1", versions("2.14.3", "1.13.1"));
    assert_eq!(new[0].oddity, Oddity::OtherVersion);
    assert_eq!(new[0].right, "NCCL_BLOCKING_WAIT");
    let pointers = check_one("NCCL_CHECK_POINTERS", "1", versions("2.28.9", "2.11"));
    assert!(pointers.is_empty(), "{pointers:?}");
    let early = check_one("NCCL_SOCKET_RETRY_CNT", "5", versions("2.18.5", "2.1"));
    assert_eq!(early[0].oddity, Oddity::OtherVersion, "{early:?}");
}

#[test]
fn of_two_names_for_one_setting_the_newer_wins() {
    let both = ["NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"];
    let settings = both.map(|name| (name.to_owned(), "1".to_owned())).into();
    let remarks = check(&settings, Versions::default());
    assert!(remarks.iter().any(|r| r.message == "TORCH_NCCL_BLOCKING_WAIT is set too and wins"));
}

#[test]
fn no_default_is_odd_in_itself() {
    for doc in all().iter().filter(|doc| doc.layer != Layer::Nobody) {
        let special = ["unset", "unknown", "never", "none"].contains(&doc.default.as_str());
        if special || doc.given != Given::Environment {
            continue;
        }
        let mut findings = Findings { name: &doc.name, value: &doc.default, list: Vec::new() };
        findings.look_at_value(doc);
        assert!(findings.list.is_empty(), "{}={}: {:?}", doc.name, doc.default, findings.list);
    }
}

proptest! {
    #[test]
    fn no_value_is_too_strange_to_be_looked_at(text in ".{0,20}", number: i64, name in "[A-Z_]{1,30}") {
        for value in [text, number.to_string()] {
            for doc in all() {
                for remark in check_one(&doc.name, &value, Versions::default()) {
                    prop_assert!(!remark.message.is_empty());
                }
            }
            check_one(&name, &value, Versions::default());
        }
    }
}
