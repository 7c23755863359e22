//! The kernel in small safe pieces.
