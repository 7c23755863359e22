//! The two things that only rtnetlink can do: make a veth pair, and set a queue length without
//! privileges over the machine. One request, one acknowledgement; no `ip` binary is needed.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};

use super::{interface, namespace::Namespaces};

const VETH_INFO_PEER: u16 = 1; // linux/veth.h

/// Sets how many packets the interface queues for sending.
///
/// # Errors
/// When there is no such interface or the kernel refuses.
pub fn set_queue_length(name: &str, packets: u32) -> io::Result<()> {
    let mut message = Message::link(libc::RTM_NEWLINK, 0, interface::index(name)?);
    message.attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    message.request()
}

/// Makes a pair of connected virtual Ethernet interfaces: `name` here, and `name` in `other`.
/// The pair vanishes with either namespace.
///
/// # Errors
/// When the kernel has no veth or refuses.
pub fn create_veth(name: &str, other: &Namespaces) -> io::Result<()> {
    let label = [name.as_bytes(), b"\0"].concat();
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = Message::link(libc::RTM_NEWLINK, flags, 0);
    message.attribute(libc::IFLA_IFNAME, &label);
    message.nested(libc::IFLA_LINKINFO, |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth\0");
        info.nested(libc::IFLA_INFO_DATA, |data| {
            data.nested(VETH_INFO_PEER, |peer| {
                peer.interface_header(0);
                peer.attribute(libc::IFLA_IFNAME, &label);
                peer.attribute(libc::IFLA_NET_NS_FD, &other.net.as_raw_fd().to_ne_bytes());
            });
        });
    });
    message.request()
}

/// A netlink message being written.
struct Message(Vec<u8>);

impl Message {
    /// A request about one interface; the length at the front is filled in when it is sent.
    fn link(kind: u16, flags: i32, index: u32) -> Message {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut message = Message(vec![0; 4]);
        message.0.extend(kind.to_ne_bytes());
        message.0.extend(flags.to_ne_bytes());
        message.0.extend(1u32.to_ne_bytes()); // sequence number
        message.0.extend(0u32.to_ne_bytes()); // sender: the kernel fills it in
        message.interface_header(index);
        message
    }

    /// struct ifinfomsg: family and type 0, index, flags and change mask 0.
    fn interface_header(&mut self, index: u32) {
        self.0.extend([0; 4]);
        self.0.extend(index.to_ne_bytes());
        self.0.extend([0; 8]);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |inner| inner.0.extend(value));
    }

    /// An attribute whose length is known only after `fill`; padded to 4 bytes.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Sends it and reads the acknowledgement.
    fn request(mut self) -> io::Result<()> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let socket: OwnedFd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        sendto(socket.as_raw_fd(), &self.0, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let got = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match acknowledgement(&answer[..got]) {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => {
                Err(io::Error::other("netlink answered something else than an acknowledgement"))
            }
        }
    }
}

/// The error field of an NLMSG_ERROR message: 0, or a negative errno.
fn acknowledgement(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = answer.get(16..20)?.try_into().ok()?;
    (i32::from(kind) == libc::NLMSG_ERROR).then(|| i32::from_ne_bytes(error))
}
