//! Names of NCCL's result codes.

/// The name of an `ncclResult_t`, as nccl.h spells it; `code N` for one that is not known here.
///
/// Source: nccl.h of 2.28.9 for 0 to 7; `ncclTimeout` came with 2.30.
pub fn error_class(code: i32) -> String {
    let name = match code {
        0 => "ncclSuccess",
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        8 => "ncclTimeout",
        other => return format!("code {other}"),
    };
    name.to_owned()
}
