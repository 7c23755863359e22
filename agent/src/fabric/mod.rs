//! The network between virtual nodes: one TUN device a node, one user-space switch.
