//! The agent against the real kernel: processes, namespaces, cgroups and sockets of its own making.

#[cfg(test)]
mod inject;
