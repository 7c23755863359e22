//! Fault injection: one trait, one file a family.
