//! ncclConfig_t: how a communicator is asked for.

use std::{
    ffi::{c_char, c_int, c_uint},
    ptr,
};

/// NCCL_CONFIG_UNDEF_INT.
const UNSET: c_int = c_int::MIN;

/// ncclConfig_t as NCCL 2.28 lays it out (nccl.h of 2.28.9, ncclConfig_v22800; 2.28.3 and 2.28.9
/// took it on an H200). A library copies no more bytes than it knows: older ones leave the tail
/// alone, later ones take the fields that `size` does not reach as unset (parseCommConfig in
/// init.cc). Strings stay null and integers [`UNSET`], as NCCL_CONFIG_INITIALIZER has them.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    channels_per_net_peer: c_int,
    nvlink_centric_sched: c_int,
}

impl Config {
    /// A communicator whose calls return at once.
    pub(super) const fn non_blocking() -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 22_800,
            blocking: 0,
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: ptr::null(),
            split_share: UNSET,
            traffic_class: UNSET,
            comm_name: ptr::null(),
            collnet_enable: UNSET,
            cta_policy: UNSET,
            shrink_share: UNSET,
            nvls_ctas: UNSET,
            channels_per_net_peer: UNSET,
            nvlink_centric_sched: UNSET,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_layout_is_that_of_2_28() {
        // From a C compiler that was given the declaration in nccl.h of 2.28.9.
        assert_eq!(size_of::<Config>(), 80);
        assert_eq!(offset_of!(Config, blocking), 16);
        assert_eq!(offset_of!(Config, net_name), 32);
        assert_eq!(offset_of!(Config, comm_name), 48);
        assert_eq!(offset_of!(Config, nvlink_centric_sched), 76);
    }
}
