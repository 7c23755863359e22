//! The agent against the real kernel: processes, namespaces, cgroups and sockets of its own making.

#[cfg(test)]
mod fabric;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod inject;
#[cfg(test)]
mod nccl;
#[cfg(test)]
mod node;
#[cfg(test)]
mod rank;
#[cfg(test)]
mod service;
