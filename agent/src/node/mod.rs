//! Virtual nodes: a network namespace, a private /dev/shm and a cgroup each.
