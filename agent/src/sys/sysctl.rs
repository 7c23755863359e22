//! `/proc/sys/net` of the calling thread's network namespace.

use std::{fs, io, path::PathBuf};

/// The value of a sysctl such as `net.ipv4.tcp_retries2`.
///
/// # Errors
/// When there is no such sysctl.
pub fn read(name: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path(name)?)?.trim().to_owned())
}

/// Sets a sysctl such as `net.ipv4.tcp_retries2`.
///
/// # Errors
/// When there is no such sysctl in this network namespace, or the value is out of its range.
pub fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name)?, value)
}

/// Only `net.*` belongs to a network namespace; anything else would change the machine.
fn path(name: &str) -> io::Result<PathBuf> {
    let right = name.starts_with("net.")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !name.split('.').any(str::is_empty);
    if !right {
        let why =
            format!("{name:?} is no sysctl of a network namespace, such as net.ipv4.tcp_retries2");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_network_namespace_become_paths() {
        let good = path("net.ipv4.tcp_retries2").unwrap();
        assert_eq!(good, PathBuf::from("/proc/sys/net/ipv4/tcp_retries2"));
        for bad in
            ["kernel.panic", "net...kernel.panic", "net./../kernel", "", "net.", "vm.swappiness"]
        {
            assert!(path(bad).is_err(), "{bad}");
        }
    }
}
