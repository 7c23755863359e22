//! Tests of the crate from outside: histories are written with the words of [`story`].

mod documents;
mod expectations;
mod findings;
mod outcomes;
mod properties;
mod recordings;
mod store;
mod story;
mod synthetic;
mod thousand_cases;
