//! The write-ahead record of everything that must be undone.
