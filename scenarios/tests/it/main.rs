//! The crate from outside: files in, plans and problems out.

mod shipped;
