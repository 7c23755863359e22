//! Real NCCL, opened at run time.
