//! Virtual nodes, against the real kernel.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio as ChildStdio},
    time::Duration,
};

use ringbreaker_agent::{
    fabric::TunPort,
    node::{INTERFACE, NodeError, VirtualNode},
    sys::{
        cgroup::Cgroup,
        filesystem,
        process::{self, Process, SpawnError, SpawnRequest, Stdio},
        procfs,
        signal::{self, Signal},
    },
};
use ringbreaker_scenarios::{
    case::NodeLimits,
    event::{ExitStatus, Isolation},
    units::Bytes,
};

use crate::ground::{PATIENCE, eventually, isolation, spec};

/// A node with these limits and its end of the network (its interface lives as long as that), or a
/// printed reason to skip.
fn node(ranks: &[u32], limits: NodeLimits) -> Option<(VirtualNode, Option<TunPort>)> {
    let isolation = isolation()?;
    Some(VirtualNode::build(&spec(3, ranks, limits), isolation).unwrap())
}

/// A shell on a node; what it writes comes back when it has ended.
fn shell(node: &VirtualNode, rank: u32, script: &str) -> (ExitStatus, String) {
    let (mut read, write) = io::pipe().unwrap();
    let process = spawn_shell(node, rank, script, Stdio::Fd(write.into()));
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    (process.wait_timeout(PATIENCE).unwrap().expect("the shell ends"), text)
}

fn spawn_shell(node: &VirtualNode, rank: u32, script: &str, stdout: Stdio) -> Process {
    process::spawn(SpawnRequest {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        stdout,
        stderr: Stdio::Inherit,
        entry: Some(node.entry(rank)),
        ..SpawnRequest::default()
    })
    .unwrap()
}

/// A group of the first rank, or a printed reason to skip.
fn cgroup(node: &VirtualNode) -> Option<&Cgroup> {
    let found = node.cgroup(0);
    if found.is_none() {
        println!("SKIPPED: no cgroups here: {}", node.no_cgroups().unwrap_or("no reason given"));
    }
    found
}

#[test]
fn a_child_of_a_node_sees_its_network_and_its_shared_memory() {
    let Some((node, _port)) = node(&[0], NodeLimits::default()) else { return };
    let name = format!("ringbreaker-it-{}", process_tag());
    let script = format!(
        "echo hello > /dev/shm/{name}; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; \
         readlink /proc/self/ns/net"
    );
    let (status, text) = shell(&node, 0, &script);
    assert_eq!(status, ExitStatus::Code(0));
    let mut lines: Vec<&str> = text.lines().collect();
    let namespace = lines.pop().unwrap();
    assert!(lines.contains(&INTERFACE) && lines.contains(&"lo") && lines.len() == 2, "{text}");
    assert_ne!(namespace, fs::read_link("/proc/self/ns/net").unwrap().to_str().unwrap());
    assert!(!Path::new("/dev/shm").join(&name).exists(), "a node's /dev/shm leaked out");
    assert_eq!(fs::read_to_string(node.shm_path().join(&name)).unwrap(), "hello\n");
    let inside = node.inside(|| fs::read_to_string(Path::new("/dev/shm").join(&name))).unwrap();
    assert_eq!(inside.unwrap(), "hello\n");
}

/// Unique among the processes of this machine.
fn process_tag() -> u32 {
    std::process::id()
}

#[test]
fn the_size_of_shared_memory_is_enforced() {
    let shm_size = Some(Bytes(1 << 20));
    let Some((node, _port)) = node(&[0], NodeLimits { shm_size, ..NodeLimits::default() }) else {
        return;
    };
    assert_eq!(filesystem::space(&node.shm_path()).unwrap().size, Bytes(1 << 20));
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(node.shm_path().join("fill"))
        .unwrap();
    let refused = (0..3).find_map(|_| file.write_all(&vec![0; 1 << 19]).err()).unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn sysctls_belong_to_the_node_alone_and_wrong_ones_are_named() {
    let Some(isolation) = isolation() else { return };
    let outside = fs::read_to_string("/proc/sys/net/ipv4/tcp_retries2").unwrap();
    let limits = |name: &str, value: &str| NodeLimits {
        sysctls: [(name.to_owned(), value.to_owned())].into(),
        ..NodeLimits::default()
    };
    let built = VirtualNode::build(&spec(0, &[], limits("tcp_retries2", "3")), isolation);
    let (node, _port) = built.unwrap();
    let inside = node.inside(|| fs::read_to_string("/proc/sys/net/ipv4/tcp_retries2")).unwrap();
    assert_eq!(inside.unwrap().trim(), "3");
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_retries2").unwrap(), outside);
    for (name, value) in [("no_such_sysctl", "1"), ("tcp_retries2", "many")] {
        let refused = VirtualNode::build(&spec(0, &[], limits(name, value)), isolation);
        let Err(NodeError::Limit { limit, .. }) = refused else { panic!("{name} was taken") };
        assert_eq!(limit, name);
    }
}

#[test]
fn a_memory_limit_ends_the_rank_that_exceeds_it_and_the_kernel_counts_that() {
    let limits = NodeLimits { memory_limit: Some(Bytes(32 << 20)), ..NodeLimits::default() };
    if isolation().is_none_or(|isolation| isolation != Isolation::Namespaces) {
        println!("SKIPPED: memory cgroups need root and namespaces");
        return;
    }
    let Some((node, _port)) = node(&[0], limits) else { return };
    let Some(group) = cgroup(&node) else { return };
    assert_eq!(group.oom_kills().unwrap(), 0);
    // dd fills one buffer of that size; exec, so that it is the rank itself.
    let (status, _) = shell(&node, 0, "exec dd if=/dev/zero of=/dev/null bs=256M count=1");
    assert_eq!(status, ExitStatus::Signal(Signal::SIGKILL as i32));
    eventually("the kill is counted", || group.oom_kills().unwrap() >= 1);
    group.set_memory_limit(None, false).unwrap();
    let (status, _) = shell(&node, 0, "true");
    assert_eq!(status, ExitStatus::Code(0));
}

#[test]
fn ranks_join_their_own_cgroup_and_dropping_the_node_ends_them_and_removes_it() {
    let Some((node, _port)) = node(&[0, 1], NodeLimits::default()) else { return };
    let Some(group) = cgroup(&node) else { return };
    let rank = spawn_shell(&node, 0, "sleep 1000 & wait", Stdio::Null);
    eventually("rank 0 and its own child are in the group", || group.pids().unwrap().len() == 2);
    assert!(group.pids().unwrap().contains(&rank.pid));
    assert!(group.memory_usage().unwrap() > Bytes(0));
    assert_eq!(node.cgroup(1).unwrap().pids().unwrap(), Vec::<u32>::new());
    let paths = node.cgroup_paths();
    assert!(paths.len() == 2 && paths.iter().all(|path| path.exists()), "{paths:?}");
    drop(node);
    assert!(paths.iter().all(|path| !path.exists()), "a cgroup remains: {paths:?}");
    assert_eq!(rank.wait().unwrap(), ExitStatus::Signal(Signal::SIGKILL as i32));
}

#[test]
fn what_would_be_left_of_a_node_is_known_before_it_exists() {
    let Some(isolation) = isolation() else { return };
    let spec = spec(4, &[0, 1], NodeLimits::default());
    let planned = VirtualNode::planned_cgroups(&spec, isolation);
    assert!(planned.iter().all(|path| !path.exists()), "{planned:?}");
    let (node, _port) = VirtualNode::build(&spec, isolation).unwrap();
    assert_eq!(node.cgroup_paths(), planned);
}

#[test]
fn a_node_without_isolation_is_the_machine_and_refuses_what_it_cannot_give() {
    let (node, port) =
        VirtualNode::build(&spec(5, &[0], NodeLimits::default()), Isolation::Plain).unwrap();
    assert!(port.is_none() && node.cgroup(0).is_none());
    assert_eq!(node.address().to_string(), "127.0.0.1");
    assert_eq!(node.shm_path(), PathBuf::from("/dev/shm"));
    let (status, text) = shell(&node, 0, "readlink /proc/self/ns/net");
    assert_eq!(status, ExitStatus::Code(0));
    assert_eq!(text.trim(), fs::read_link("/proc/self/ns/net").unwrap().to_str().unwrap());
    for limits in [
        NodeLimits { shm_size: Some(Bytes(1 << 20)), ..NodeLimits::default() },
        NodeLimits { memory_limit: Some(Bytes(1 << 20)), ..NodeLimits::default() },
        NodeLimits { sysctls: [("tcp_sack".into(), "0".into())].into(), ..NodeLimits::default() },
    ] {
        let refused = VirtualNode::build(&spec(0, &[], limits), Isolation::Plain);
        assert!(matches!(refused, Err(NodeError::Limit { .. })));
    }
    let far = VirtualNode::build(&spec(250, &[], NodeLimits::default()), Isolation::Plain);
    assert!(matches!(far, Err(NodeError::NoAddress { node: 250 })));
}

#[test]
fn sockets_made_inside_stay_inside_when_used_from_outside() {
    let Some((node, _port)) = node(&[], NodeLimits::default()) else { return };
    let listener = node.inside(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    node.inside(|| TcpStream::connect(at)).unwrap().unwrap();
    // The same port of the machine is free: it can be taken.
    drop(TcpListener::bind(at).expect("the port is taken only inside"));
}

#[test]
fn a_child_gets_exactly_the_descriptors_limits_and_variables_it_was_given() {
    let (mut near, far) = UnixStream::pair().unwrap();
    // Without CLOEXEC, as a careless library might leave one open.
    let leak: OwnedFd = nix::unistd::dup(&near).unwrap();
    let (mut read, write) = io::pipe().unwrap();
    let limits = NodeLimits { nofile: Some(77), ..NodeLimits::default() };
    let (node, _) = VirtualNode::build(&spec(0, &[], limits), Isolation::Plain).unwrap();
    let process = process::spawn(SpawnRequest {
        program: "/bin/sh".into(),
        args: vec![
            "-c".into(),
            "echo on three >&3; ulimit -n; echo $GIVEN; echo /proc/$$/fd/*".into(),
        ],
        env: [("GIVEN".into(), "yes".into())].into(),
        stdout: Stdio::Fd(write.into()),
        fds: vec![(far.into(), 3)],
        entry: Some(node.entry(0)),
        ..SpawnRequest::default()
    })
    .unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!(process.wait().unwrap(), ExitStatus::Code(0));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["77", "yes"], "{text}");
    let mut fds: Vec<&str> =
        lines[2].split_whitespace().map(|path| path.rsplit('/').next().unwrap()).collect();
    fds.sort_unstable();
    assert!(!fds.contains(&leak.as_raw_fd().to_string().as_str()) || leak.as_raw_fd() <= 3);
    assert!(fds.starts_with(&["0", "1"]) && fds.contains(&"3"), "{text}");
    let mut said = String::new();
    drop(leak);
    near.read_to_string(&mut said).unwrap();
    assert_eq!(said, "on three\n");
}

#[test]
fn a_child_that_cannot_start_says_which_step_failed() {
    let absent = process::spawn(SpawnRequest {
        program: "/no/such/program".into(),
        ..SpawnRequest::default()
    });
    let Err(SpawnError::Step { step, source, .. }) = absent else { panic!("it started") };
    assert_eq!((step, source.kind()), ("execute the program", io::ErrorKind::NotFound));
    let nowhere = process::spawn(SpawnRequest {
        program: "/bin/true".into(),
        directory: Some("/no/such/directory".into()),
        ..SpawnRequest::default()
    });
    let Err(SpawnError::Step { step, .. }) = nowhere else { panic!("it started") };
    assert_eq!(step, "change to its working directory");
}

#[test]
fn a_stopped_child_shows_it_and_a_child_of_another_start_time_is_never_signalled() {
    let (node, _) =
        VirtualNode::build(&spec(0, &[], NodeLimits::default()), Isolation::Plain).unwrap();
    let child = spawn_shell(&node, 0, "exec sleep 1000", Stdio::Null);
    assert!(child.signal(Signal::SIGSTOP).unwrap());
    eventually("it is stopped", || child.state().unwrap() == Some('T'));
    assert!(!signal::send(child.pid, child.start_time + 1, Signal::SIGKILL).unwrap());
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(signal::send(child.pid, child.start_time, Signal::SIGKILL).unwrap());
    assert_eq!(child.wait().unwrap(), ExitStatus::Signal(Signal::SIGKILL as i32));
    assert_eq!(child.state().unwrap(), None);
    assert!(!child.signal(Signal::SIGKILL).unwrap());
}

#[test]
fn an_agent_without_root_becomes_root_of_a_user_namespace_or_says_why_not() {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can start a process as somebody else");
        return;
    }
    // Where anybody may execute it; a checkout often is not.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_ringbreaker-agent-test"), &program).unwrap();
    let output = Command::new(&program)
        .arg("enter-user-namespace")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let (entered, probed) = text.split_once('\n').unwrap();
    if entered.starts_with("Plain") {
        assert!(entered.contains("run as root"), "{entered}");
        println!("SKIPPED: user namespaces are not allowed here: {entered}");
        return;
    }
    assert!(entered.starts_with("UserNamespace as 0: "), "{entered}");
    // Whether /dev/net/tun may be opened by everybody differs between distributions.
    assert!(
        probed.contains("isolation: UserNamespace") || probed.contains("/dev/net/tun"),
        "{probed}"
    );
}

/// Set for the owner below; without it the owner does nothing.
const OWNER: &str = "RINGBREAKER_TEST_OWNER";

/// Not a test by itself: the process that the next test kills.
#[test]
#[ignore = "started by the next test"]
fn owner_of_a_node_that_waits_to_be_killed() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let (node, _port) = node(&[0], NodeLimits::default()).unwrap();
    let rank = spawn_shell(&node, 0, "exec sleep 1000", Stdio::Null);
    let namespace =
        node.inside(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).unwrap();
    let paths = node.cgroup_paths();
    println!("\nmade {} {} {namespace} {}", rank.pid, rank.start_time, paths[0].display());
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn when_its_owner_is_killed_only_cgroups_remain_and_they_can_be_removed_from_their_paths() {
    if isolation().is_none_or(|isolation| isolation != Isolation::Namespaces) {
        println!("SKIPPED: cgroups need root");
        return;
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact"])
        .arg("node::owner_of_a_node_that_waits_to_be_killed")
        .env(OWNER, "1")
        .stdout(ChildStdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(owner.stdout.take().unwrap());
    let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("made "));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let line = line.expect("the owner builds its node");
    let words: Vec<&str> = line.split(' ').collect();
    let [_, pid, start_time, namespace, path] = words[..] else { panic!("{line}") };
    let (pid, start_time) = (pid.parse().unwrap(), start_time.parse().unwrap());
    eventually("the rank has died with its owner", || {
        matches!(procfs::state(pid, start_time).unwrap(), None | Some('Z'))
    });
    assert!(!namespace_is_used(namespace), "somebody is still in the network namespace");
    let path = Path::new(path);
    assert!(path.exists(), "a cgroup cannot remove itself");
    Cgroup::adopt(path).unwrap().remove().unwrap();
    assert!(!path.exists());
}

fn namespace_is_used(inode: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read_link(entry.path().join("ns/net"))
            .is_ok_and(|link| link.to_string_lossy() == format!("net:[{inode}]"))
    })
}
