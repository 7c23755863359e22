//! The range of automatic ports of a node.

use std::ops::RangeInclusive;

use ringbreaker_scenarios::case::Node;

use crate::{
    inject::{Ground, InjectError, ground::Targets, layers::Layers},
    node::VirtualNode,
    sys::sysctl,
};

/// The kernel's range of automatic ports, of the network namespace that the caller is in; IPv6 uses it
/// too.
const RANGE: &str = "net.ipv4.ip_local_port_range";

/// The last `size` ports there are, where nothing listens by convention.
pub(super) fn last(size: u16) -> RangeInclusive<u16> {
    u16::MAX - size + 1..=u16::MAX
}

/// The changed ranges of some nodes.
pub(super) struct Ranges {
    fault: &'static str,
    id: u32,
    nodes: Targets,
    shared: Layers<Node, String>,
}

impl Ranges {
    pub(super) fn new(fault: &'static str, id: u32, nodes: Targets, ground: &Ground) -> Ranges {
        Ranges { fault, id, nodes, shared: ground.port_ranges.clone() }
    }

    /// Gives a node this range.
    pub(super) fn set(
        &self,
        node: &VirtualNode,
        range: &RangeInclusive<u16>,
    ) -> Result<(), InjectError> {
        let wanted = format!("{} {}", range.start(), range.end());
        let now = Targets::inside(node, || sysctl::read(RANGE))
            .map_err(InjectError::step(self.fault, "read the range of ports"))?;
        self.shared.push(node.node(), self.id, now, wanted.clone());
        Targets::inside(node, || sysctl::write(RANGE, &wanted))
            .map_err(InjectError::step(self.fault, "narrow the range of ports"))
    }

    /// Writes what belongs there without this fault, and reads it again.
    pub(super) fn restore(&self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let Some(right) = self.shared.without(&node.node(), self.id) else { continue };
            let restore = || {
                sysctl::write(RANGE, &right)?;
                sysctl::read(RANGE)
            };
            let now = Targets::inside(node, restore)
                .map_err(InjectError::step(self.fault, "restore the range of ports"))?;
            if !now.split_whitespace().eq(right.split_whitespace()) {
                let found = format!("an automatic port range of {now}");
                return Err(InjectError::still_there(self.fault, found));
            }
            self.shared.forget(&node.node(), self.id);
        }
        Ok(())
    }
}
