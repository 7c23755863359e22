//! Which network interface is used, by NCCL_SOCKET_IFNAME, in NCCL's order.

use std::net::Ipv4Addr;

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};

use super::super::{backend::CallError, code};

/// An interface that is up, with its IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its first IPv4 address.
    pub address: Ipv4Addr,
}

/// The interfaces that are up and have an IPv4 address, in the kernel's order.
pub fn list() -> Result<Vec<Interface>, CallError> {
    let all = getifaddrs().map_err(|e| {
        CallError::new(code::SYSTEM_ERROR, format!("Call to getifaddrs failed: {}", e.desc()))
    })?;
    Ok(all
        .filter(|i| i.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|i| {
            let address = i.address.as_ref()?.as_sockaddr_in()?.ip();
            Some(Interface { name: i.interface_name, address })
        })
        .collect())
}

/// The interface that NCCL would take: what NCCL_SOCKET_IFNAME allows (a list of prefixes, `=` for
/// exact names, `^` to exclude), or without it anything but docker and loopback, then docker, then
/// loopback.
pub fn choose(all: &[Interface], wanted: Option<&str>) -> Option<Ipv4Addr> {
    let first =
        |matches: &dyn Fn(&str) -> bool| all.iter().find(|i| matches(&i.name)).map(|i| i.address);
    if let Some(text) = wanted {
        let (exclude, text) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (exact, text) = match text.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let named = |name: &str| {
            text.split(',').any(|w| if exact { name == w } else { name.starts_with(w) })
        };
        return first(&|name| named(name) != exclude);
    }
    let (docker, virbr, loopback) =
        (|n: &str| n.starts_with("docker"), |n: &str| n.starts_with("virbr"), |n: &str| n == "lo");
    first(&|n| n.starts_with("ib"))
        .or_else(|| first(&|n| !docker(n) && !loopback(n) && !virbr(n)))
        .or_else(|| first(&docker))
        .or_else(|| first(&loopback))
        .or_else(|| first(&virbr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_chosen_as_nccl_chooses_it() {
        let all: Vec<Interface> = ["lo", "docker0", "eth0", "eth1", "ib0"]
            .iter()
            .zip(1..)
            .map(|(name, n)| Interface {
                name: (*name).into(),
                address: Ipv4Addr::new(10, 0, 0, n),
            })
            .collect();
        let last = |wanted, all: &[Interface]| choose(all, wanted).map(|a| a.octets()[3]);
        for (wanted, want) in [
            (None, Some(5)),
            (Some("eth"), Some(3)),
            (Some("=eth1"), Some(4)),
            (Some("=eth"), None),
            (Some("^ib,eth,lo"), Some(2)),
            (Some("^=ib0"), Some(1)),
            (Some("wlan"), None),
            (Some("lo"), Some(1)),
        ] {
            assert_eq!(last(wanted, &all), want, "{wanted:?}");
        }
        assert_eq!(last(None, &all[..4]), Some(3), "no InfiniBand: the first real one");
        assert_eq!(last(None, &all[..2]), Some(2), "docker before loopback");
        assert_eq!(last(None, &all[..1]), Some(1));
    }
}
