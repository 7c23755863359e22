//! The host stand-in: rehearses the harness, says nothing about anybody's NCCL.
