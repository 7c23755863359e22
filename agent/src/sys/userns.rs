//! A user namespace for agents without root.

use std::{fs, io, sync::OnceLock};

use nix::{
    sched::{CloneFlags, unshare},
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork, getegid, geteuid},
};
use ringbreaker_scenarios::event::Isolation;

use super::namespace::Namespaces;

/// Why [`enter`] failed, for [`present`].
static REFUSED: OnceLock<String> = OnceLock::new();

/// What became of [`enter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The best isolation that may be possible now.
    pub isolation: Isolation,
    /// Why it is not better; none: it is the best there is.
    pub reason: Option<String>,
}

/// Makes this process root of a user namespace of its own when it is not root, so that it may make
/// the other namespaces. It stays in the machine's network, where its controller is.
///
/// Must be called before any thread exists; the kernel refuses otherwise. As root it does nothing.
/// The whole of it is tried in a forked child first, because a half-made user namespace (as some
/// distributions allow) could not be left again.
pub fn enter() -> Entered {
    if geteuid().is_root() {
        return present();
    }
    match rehearse().and_then(|()| become_root_of_own()) {
        Ok(()) => Entered {
            isolation: Isolation::UserNamespace,
            reason: Some("not root: a user namespace is used, which has no memory cgroups".into()),
        },
        Err(error) => {
            let reason = REFUSED.get_or_init(|| refusal(&error)).clone();
            Entered { isolation: Isolation::Plain, reason: Some(reason) }
        }
    }
}

/// What this process already is, without changing anything.
pub fn present() -> Entered {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match (geteuid().is_root(), is_initial(&map)) {
        (true, true) => Entered { isolation: Isolation::Namespaces, reason: None },
        (true, false) => Entered {
            isolation: Isolation::UserNamespace,
            reason: Some("root of a user namespace only, which has no memory cgroups".into()),
        },
        (false, _) => Entered {
            isolation: Isolation::Plain,
            reason: Some(
                REFUSED
                    .get()
                    .cloned()
                    .unwrap_or_else(|| "not root, and no user namespace was entered".to_owned()),
            ),
        },
    }
}

/// The machine's first user namespace maps every id to itself.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn become_root_of_own() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel refuses the group map: dropping a group could widen access.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// The same and a namespace pair, in a child that then ends; its exit code is the error number.
fn rehearse() -> io::Result<()> {
    // SAFETY: no other thread exists yet (see `enter`), so the child may do what it likes.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let tried = become_root_of_own()
                .and_then(|()| Namespaces::create(|| Ok::<_, io::Error>(())).map(drop));
            let code = tried.map_or_else(|e| e.raw_os_error().unwrap_or(nix::libc::EIO), |()| 0);
            // SAFETY: ends the child at once, without running the parent's exit handlers.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Exited(_, code) => Err(io::Error::from_raw_os_error(code)),
            other => Err(io::Error::other(format!("the rehearsal ended with {other:?}"))),
        },
    }
}

/// The kernel's refusal and the switch that most probably caused it.
fn refusal(error: &io::Error) -> String {
    let switches = [
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "kernel.unprivileged_userns_clone is 0",
        ),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns is 1",
        ),
    ];
    let cause = switches
        .iter()
        .find(|(file, bad, _)| fs::read_to_string(file).is_ok_and(|text| text.trim() == *bad))
        .map_or("the kernel or a sandbox forbids it", |(_, _, cause)| cause);
    format!("not root, and no user namespace can be made ({error}; {cause}); run as root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_namespace_is_told_from_others() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial(""));
    }
}
