//! Result codes: ncclResult_t as plain integers, since a release may add some.

/// ncclSuccess.
pub const SUCCESS: i32 = 0;
/// ncclUnhandledCudaError.
pub const UNHANDLED_CUDA_ERROR: i32 = 1;
/// ncclSystemError.
pub const SYSTEM_ERROR: i32 = 2;
/// ncclInternalError; also what an aborted call returns.
pub const INTERNAL_ERROR: i32 = 3;
/// ncclInvalidArgument.
pub const INVALID_ARGUMENT: i32 = 4;
/// ncclInvalidUsage.
pub const INVALID_USAGE: i32 = 5;
/// ncclRemoteError (since 2.13).
pub const REMOTE_ERROR: i32 = 6;
/// ncclInProgress.
pub const IN_PROGRESS: i32 = 7;

/// The name of a code, as NCCL's header has it.
pub const fn name(code: i32) -> &'static str {
    match code {
        SUCCESS => "ncclSuccess",
        UNHANDLED_CUDA_ERROR => "ncclUnhandledCudaError",
        SYSTEM_ERROR => "ncclSystemError",
        INTERNAL_ERROR => "ncclInternalError",
        INVALID_ARGUMENT => "ncclInvalidArgument",
        INVALID_USAGE => "ncclInvalidUsage",
        REMOTE_ERROR => "ncclRemoteError",
        IN_PROGRESS => "ncclInProgress",
        8 => "ncclTimeout",
        _ => "unknown ncclResult_t",
    }
}
