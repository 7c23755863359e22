//! A packet as a TUN device with offload gives it: virtio header, IPv4 header, the rest.
//!
//! A GSO packet is many packets of the wire (segments) of one connection in one piece. Pure: no
//! device is touched here.

use std::{net::Ipv4Addr, ops::Range};

use crate::sys::tun::HEADER;

const NEEDS_CHECKSUM: u8 = 1; // VIRTIO_NET_HDR_F_NEEDS_CSUM
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_UDP: u8 = 5; // VIRTIO_NET_HDR_GSO_UDP_L4
const GSO_ECN: u8 = 0x80;
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// A packet that was understood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    /// Length of the IP header.
    ip: usize,
    /// Length of IP and TCP or UDP header together; only of GSO packets.
    headers: usize,
    /// Payload of each segment but the last; none: this is a single packet.
    segment: Option<usize>,
}

impl<'a> Packet<'a> {
    /// Understands a packet; none: it is not IPv4 or not whole.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (header, packet) = bytes.split_at_checked(HEADER)?;
        let ip = usize::from(packet.first()? & 0x0f) * 4;
        if packet[0] >> 4 != 4 || ip < 20 || packet.len() < ip {
            return None;
        }
        let kind = header[1] & !GSO_ECN;
        if kind == GSO_NONE {
            return Some(Packet { bytes, ip, headers: ip, segment: None });
        }
        let transport = match (kind, packet[9]) {
            (GSO_TCP4, TCP) => usize::from(packet.get(ip + 12)? >> 4) * 4,
            (GSO_UDP, UDP) => 8,
            _ => return None,
        };
        let headers = ip + transport;
        let size = usize::from(u16::from_ne_bytes([header[4], header[5]]));
        let shortest = if kind == GSO_TCP4 { 20 } else { 8 };
        if transport < shortest || size == 0 || packet.len() <= headers {
            return None;
        }
        Some(Packet { bytes, ip, headers, segment: Some(size) })
    }

    /// Where it goes.
    pub(super) fn destination(&self) -> Ipv4Addr {
        let ip = &self.bytes[HEADER..];
        Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19])
    }

    /// As it was read.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many packets of the wire it is.
    pub(super) fn segments(&self) -> usize {
        self.segment.map_or(1, |size| self.payload().len().div_ceil(size))
    }

    /// Bytes that these segments have on the wire, IP headers included.
    pub(super) fn wire_bytes(&self, run: &Range<usize>) -> usize {
        match self.segment {
            None => self.bytes.len() - HEADER,
            Some(size) => run.len() * self.headers + self.payload_of(run, size).len(),
        }
    }

    /// Writes these segments as one packet that is correct by itself into `out`.
    pub(super) fn cut(&self, run: &Range<usize>, out: &mut Vec<u8>) {
        out.clear();
        let Some(size) = self.segment.filter(|_| run.len() < self.segments()) else {
            out.extend_from_slice(self.bytes);
            return;
        };
        let payload = self.payload_of(run, size);
        out.extend_from_slice(&self.bytes[..HEADER + self.headers]);
        out.extend_from_slice(&self.bytes[HEADER + self.headers..][payload.clone()]);
        let (virtio, packet) = out.split_at_mut(HEADER);
        self.mend_virtio(virtio, run);
        self.mend_ip(&mut packet[..self.ip], run, payload.len());
        let transport = &mut packet[self.ip..self.headers];
        match self.bytes[HEADER + 9] {
            TCP => mend_tcp(transport, run, payload.start, self.segments()),
            _ => put(transport, 4, (8 + payload.len()) as u16),
        }
        self.mend_checksum(packet);
    }

    fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER + self.headers..]
    }

    /// The part of the payload that these segments carry.
    fn payload_of(&self, run: &Range<usize>, size: usize) -> Range<usize> {
        let all = self.payload().len();
        (run.start * size).min(all)..(run.end * size).min(all)
    }

    /// A single segment is an ordinary packet. The receiver finishes the checksum in either case.
    fn mend_virtio(&self, virtio: &mut [u8], run: &Range<usize>) {
        virtio[0] |= NEEDS_CHECKSUM;
        if run.len() == 1 {
            virtio[1] = GSO_NONE;
            virtio[4..6].fill(0);
        }
        virtio[6..8].copy_from_slice(&(self.ip as u16).to_ne_bytes());
        virtio[8..10].copy_from_slice(&(self.checksum_at() as u16).to_ne_bytes());
    }

    /// Where the checksum is within the TCP or UDP header.
    fn checksum_at(&self) -> usize {
        if self.bytes[HEADER + 9] == TCP { 16 } else { 6 }
    }

    /// Length, identification (which counts on segment by segment), checksum.
    fn mend_ip(&self, ip: &mut [u8], run: &Range<usize>, payload: usize) {
        put(ip, 2, (self.headers + payload) as u16);
        put(ip, 4, get(ip, 4).wrapping_add(run.start as u16));
        put(ip, 10, 0);
        put(ip, 10, !folded(sum(ip)));
    }

    /// An unfinished checksum field holds the sum of the pseudo header, which has the length in it.
    fn mend_checksum(&self, packet: &mut [u8]) {
        let length = packet.len() - self.ip;
        let pseudo = sum(&packet[12..20]) + u64::from(packet[9]) + length as u64;
        put(packet, self.ip + self.checksum_at(), folded(pseudo));
    }
}

/// Sequence number, and the flags that only the last or only the first segment carries.
fn mend_tcp(tcp: &mut [u8], run: &Range<usize>, offset: usize, segments: usize) {
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(offset as u32);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if run.end < segments {
        tcp[13] &= !(TCP_FIN | TCP_PSH);
    }
    if run.start > 0 {
        tcp[13] &= !TCP_CWR;
    }
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The Internet checksum's sum (RFC 1071), neither folded nor complemented.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b)))
        .sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
