use proptest::prelude::*;

use super::*;

const FLAGS: u8 = TCP_CWR | TCP_PSH | TCP_FIN | 0x10;
const SEQUENCE: u32 = u32::MAX - 5_000;
const IDENTIFICATION: u16 = u16::MAX - 3;

/// A GSO packet as the kernel makes it: pseudo-header sum in the checksum field.
fn superpacket(protocol: u8, options: usize, payload: &[u8], size: u16) -> Vec<u8> {
    let transport = if protocol == TCP { 20 + options * 4 } else { 8 };
    let kind = if protocol == TCP { GSO_TCP4 } else { GSO_UDP };
    let mut bytes = vec![0; HEADER];
    bytes[..2].copy_from_slice(&[NEEDS_CHECKSUM, kind]);
    bytes[4..6].copy_from_slice(&size.to_ne_bytes());
    bytes.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    let length = bytes.len() - HEADER + transport + payload.len();
    let mut header = vec![0; transport];
    if protocol == TCP {
        header[4..8].copy_from_slice(&SEQUENCE.to_be_bytes());
        header[12] = ((transport / 4) as u8) << 4;
        header[13] = FLAGS;
    } else {
        put(&mut header, 4, (8 + payload.len()) as u16);
    }
    bytes.extend(header);
    bytes.extend(payload);
    put(&mut bytes, HEADER + 2, length as u16);
    put(&mut bytes, HEADER + 4, IDENTIFICATION);
    bytes
}

/// A plain packet of the wire, taken from a cut one as the receiving kernel would.
struct Wire {
    identification: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

/// Checks every length and checksum of a cut packet and takes its segments apart, by the definitions
/// of the fields and not by the code under test.
fn take_apart(bytes: &[u8]) -> Vec<Wire> {
    let (virtio, ip) = bytes.split_at(HEADER);
    assert_eq!(usize::from(get(ip, 2)), ip.len(), "IP length");
    assert_eq!(folded(sum(&ip[..20])), 0xffff, "IP checksum");
    let tcp = ip[9] == TCP;
    let transport = if tcp { usize::from(ip[32] >> 4) * 4 } else { 8 };
    let (start, at) = (u16::from_ne_bytes([virtio[6], virtio[7]]), if tcp { 16 } else { 6 });
    assert_eq!((virtio[0], start), (NEEDS_CHECKSUM, 20));
    assert_eq!(usize::from(u16::from_ne_bytes([virtio[8], virtio[9]])), at);
    // The receiver sums from the transport header on, the field included: with the pseudo header's
    // sum in it the result must be that of the whole.
    let mut cleared = ip[20..].to_vec();
    put(&mut cleared, at, 0);
    let pseudo = [&ip[12..20], &[0, ip[9]], &((ip.len() - 20) as u16).to_be_bytes()].concat();
    let finished = folded(sum(&ip[20..]));
    assert_eq!(finished, folded(sum(&[pseudo, cleared].concat())), "checksum");
    if !tcp {
        assert_eq!(usize::from(get(ip, 24)), ip.len() - 20, "UDP length");
    }
    let payload = &ip[20 + transport..];
    let size = match u16::from_ne_bytes([virtio[4], virtio[5]]) {
        0 => payload.len(),
        size => usize::from(size),
    };
    assert_eq!(virtio[1] == GSO_NONE, payload.len() <= size, "GSO only for more than one");
    let count = payload.len().div_ceil(size);
    payload
        .chunks(size)
        .enumerate()
        .map(|(i, chunk)| Wire {
            identification: get(ip, 4).wrapping_add(i as u16),
            sequence: u32::from_be_bytes(ip[24..28].try_into().unwrap())
                .wrapping_add((i * size) as u32),
            flags: {
                let ends = if i + 1 < count { TCP_FIN | TCP_PSH } else { 0 };
                let begins = if i > 0 { TCP_CWR } else { 0 };
                if tcp { ip[33] & !ends & !begins } else { 0 }
            },
            payload: chunk.to_vec(),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a superpacket is cut, its segments come out once each, in order, and right.
    #[test]
    fn every_segment_survives_a_cut_exactly_once_and_correct(
        tcp in any::<bool>(),
        options in 0usize..4,
        size in 1u16..1460,
        length in 1usize..20_000,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let size = size.max((length / 200) as u16);
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 256) as u8).collect();
        let protocol = if tcp { TCP } else { UDP };
        let bytes = superpacket(protocol, options, &payload, size);
        // A single segment is not GSO to the kernel; make sure that there are two at least.
        prop_assume!(length > usize::from(size));
        let packet = Packet::parse(&bytes).unwrap();
        let segments = packet.segments();
        prop_assert_eq!(segments, length.div_ceil(usize::from(size)));
        // At least one cut: an uncut packet is passed on as it came.
        let mut edges: Vec<usize> = cuts.iter().map(|c| 1 + c.index(segments - 1)).collect();
        edges.extend([0, 1, segments]);
        edges.sort_unstable();
        edges.dedup();
        let mut out = Vec::new();
        let mut wires = Vec::new();
        for run in edges.windows(2).map(|e| e[0]..e[1]) {
            packet.cut(&run, &mut out);
            let cut = take_apart(&out);
            prop_assert_eq!(cut.len(), run.len());
            let headers = 20 + if tcp { 20 + options * 4 } else { 8 };
            let wire: usize = cut.iter().map(|w| w.payload.len() + headers).sum();
            prop_assert_eq!(packet.wire_bytes(&run), wire);
            wires.extend(cut);
        }
        prop_assert_eq!(wires.len(), segments);
        for (i, wire) in wires.iter().enumerate() {
            prop_assert_eq!(wire.identification, IDENTIFICATION.wrapping_add(i as u16));
            if tcp {
                let offset = (i * usize::from(size)) as u32;
                prop_assert_eq!(wire.sequence, SEQUENCE.wrapping_add(offset));
                let last = i + 1 == segments;
                prop_assert_eq!(wire.flags & (TCP_FIN | TCP_PSH) != 0, last);
                prop_assert_eq!(wire.flags & TCP_CWR != 0, i == 0);
            }
        }
        let joined: Vec<u8> = wires.into_iter().flat_map(|w| w.payload).collect();
        prop_assert_eq!(joined, payload);
    }

    /// What a node sends cannot end the switch.
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Some(packet) = Packet::parse(&bytes) {
            let mut out = Vec::new();
            for i in 0..packet.segments() {
                packet.cut(&(i..i + 1), &mut out);
            }
        }
    }
}

#[test]
fn an_uncut_packet_passes_untouched() {
    let bytes = superpacket(TCP, 3, &[1; 3000], 1000);
    let packet = Packet::parse(&bytes).unwrap();
    let mut out = vec![9];
    packet.cut(&(0..3), &mut out);
    assert_eq!(out, bytes);
    assert_eq!(packet.destination(), Ipv4Addr::new(10, 77, 0, 2));
}
