//! The code that calls libnccl, against a fake of it: what NCCL itself does is recorded on GPUs.

mod fake;
mod leaving;
mod library;
mod rank;
