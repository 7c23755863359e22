//! The crate from outside: files in, plans and problems out.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod plans;
mod problems;
mod properties;
mod schema;
mod shipped;
