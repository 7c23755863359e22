//! Observations on disk until the controller has stored them.
