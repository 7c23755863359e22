//! One case on this node, from `Prepare` to `Finish`.
