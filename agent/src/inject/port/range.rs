//! The range of automatic ports of a node.

use std::{io, ops::RangeInclusive};

use crate::{
    inject::{InjectError, ground::Targets},
    sys::sysctl,
};

/// The kernel's range of automatic ports, of the network namespace that the caller is in; IPv6 uses it
/// too.
const RANGE: &str = "net.ipv4.ip_local_port_range";

/// The last `size` ports there are, where nothing listens by convention.
pub(super) fn last(size: u16) -> RangeInclusive<u16> {
    u16::MAX - size + 1..=u16::MAX
}

/// Acts in the caller's network namespace.
pub(super) fn set(range: &RangeInclusive<u16>) -> io::Result<()> {
    sysctl::write(RANGE, &format!("{} {}", range.start(), range.end()))
}

/// What the ranges of some nodes were before the fault.
#[derive(Default)]
pub(super) struct Before(Vec<String>);

impl Before {
    /// Reads the range of the next node; the order is that of the fault's nodes.
    pub(super) fn remember(
        &mut self,
        fault: &'static str,
        node: &crate::node::VirtualNode,
    ) -> Result<(), InjectError> {
        let before = Targets::inside(node, || sysctl::read(RANGE))
            .map_err(InjectError::step(fault, "read the range of ports"))?;
        self.0.push(before);
        Ok(())
    }

    /// Writes back what was read, and reads it again.
    pub(super) fn restore(
        &mut self,
        fault: &'static str,
        nodes: &Targets,
    ) -> Result<(), InjectError> {
        for (node, before) in nodes.iter().zip(&self.0) {
            let restore = || {
                sysctl::write(RANGE, before)?;
                sysctl::read(RANGE)
            };
            let now = Targets::inside(node, restore)
                .map_err(InjectError::step(fault, "restore the range of ports"))?;
            if now != *before {
                let found = format!("an automatic port range of {now}");
                return Err(InjectError::still_there(fault, found));
            }
        }
        self.0.clear();
        Ok(())
    }
}
