//! The wire between controller and agents, generated from `ringbreaker/v1/fleet.proto` without
//! protoc. That file is the documentation; conversions to and from the model live at the two ends
//! (`controller/src/wire.rs`, `agent/src/wire.rs`), since this crate depends on nothing of ours.

/// Version 1 of the protocol.
#[expect(
    missing_docs,
    clippy::all,
    clippy::allow_attributes,
    reason = "generated; the .proto file documents it"
)]
pub mod v1 {
    tonic::include_proto!("ringbreaker.v1");
}
