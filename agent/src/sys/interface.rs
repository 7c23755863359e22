//! Network interfaces of the calling thread's network namespace: address, MTU, up.
//!
//! By ioctl, because that needs no message parsing; what ioctl cannot do is in [`super::netlink`].

use std::{io, net::Ipv4Addr, os::fd::AsRawFd};

use nix::{
    libc,
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};

/// Gives the interface an IPv4 address with a prefix.
///
/// # Errors
/// When there is no such interface or the kernel refuses.
pub fn set_address(name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    request(name, libc::SIOCSIFADDR, |r| r.ifr_ifru.ifru_addr = socket_address(address))?;
    request(name, libc::SIOCSIFNETMASK, |r| {
        r.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from(mask));
    })
}

/// Sets the largest packet, in bytes with the IP header.
///
/// # Errors
/// As [`set_address`].
pub fn set_mtu(name: &str, mtu: u16) -> io::Result<()> {
    request(name, libc::SIOCSIFMTU, |r| r.ifr_ifru.ifru_mtu = i32::from(mtu))
}

/// Brings the interface up.
///
/// # Errors
/// As [`set_address`].
pub fn bring_up(name: &str) -> io::Result<()> {
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request(name, libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = flags)
}

/// The kernel's number of the interface.
///
/// # Errors
/// When there is no such interface.
pub fn index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

fn request(name: &str, code: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<()> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = named(name)?;
    fill(&mut request);
    // SAFETY: every code used here takes a pointer to one ifreq, which outlives the call.
    match unsafe { libc::ioctl(any.as_raw_fd(), code, &raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// An ifreq that names an interface, all else zero.
pub(super) fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain memory for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an interface name has 1 to 15 letters",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Port (2 bytes), then the address in network order: the layout of sockaddr_in.
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from.cast_signed();
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}
