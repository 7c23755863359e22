//! Interruptions.
