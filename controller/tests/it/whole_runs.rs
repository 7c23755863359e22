//! Real agents.
