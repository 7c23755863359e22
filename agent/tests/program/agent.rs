//! An agent with two nodes, a rank on each, a journal and a guard: it injects one fault, prints what
//! exists, and waits to be killed.

use std::{
    error::Error,
    fs, io,
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ringbreaker_agent::{
    fabric::Fabric,
    guard::Guard,
    inject::{self, Ground, RankProcess},
    journal::{Journal, Undo},
    log_pipe::LogPipe,
    node::{self, NodeSpec, VirtualNode},
    recover,
    sys::{
        process::{self, Entry, Process, SpawnRequest},
        procfs, timens,
    },
};
use ringbreaker_scenarios::{
    case::{FaultPlan, NodeLimits},
    fault::FaultKind,
    units::Bytes,
};
use serde_json::json;

/// How long the fault may take to bite.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ended when this agent fails; when it is killed, the test that killed it does that.
struct Untied(Child);

impl Drop for Untied {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays the agent whose state directory is `directory`, with a fault plan in JSON.
pub(crate) fn play(directory: &Path, plan: &str) -> i32 {
    match run(directory, plan) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("agent: {error}");
            1
        }
    }
}

fn run(directory: &Path, plan: &str) -> Result<(), Box<dyn Error>> {
    let plan: FaultPlan = serde_json::from_str(plan)?;
    fs::create_dir_all(directory)?;
    let journal_file = directory.join(recover::JOURNAL);
    let journal = Journal::open(&journal_file)?;
    let guard = Guard::start(&journal_file)?;
    let (nodes, fabric) = build(directory)?;
    let cgroups: Vec<_> = nodes.iter().flat_map(VirtualNode::cgroup_paths).collect();
    journal.record(&Undo::RemoveCgroup { paths: cgroups.clone() })?;
    let time = match &plan.kind {
        FaultKind::ShiftClock(shift) => Some(Arc::new(timens::shifted(shift.offset())?)),
        _ => None,
    };
    let processes = [spawn(&nodes[0], Some("10.77.0.2:9"), time)?, spawn(&nodes[1], None, None)?];
    let mut ranks: Vec<RankProcess> = (0..2).zip(&processes).map(rank_process).collect();
    // Rank 1 is not tied to this process by the kernel, so that only the guard can continue it.
    let untied = Untied(Command::new(std::env::current_exe()?).args(["rank", "4096"]).spawn()?);
    ranks[1].pid = untied.0.id();
    ranks[1].start_time = procfs::start_time(untied.0.id())?.ok_or("the untied rank has ended")?;

    let calling = Arc::clone(&nodes);
    let ground = Ground::new(nodes, Some(fabric), ranks.clone(), Some(4700), directory.to_owned());
    let pipe = directory.join("log-pipe");
    let log = Arc::new(LogPipe::make(&pipe, &directory.join("log"))?);
    let ground = ground.with_log_pipes([(0, log)].into());
    let mut injector = inject::injector(&plan, &ground)?;
    let undos = injector.undo();
    for undo in &undos {
        journal.record(undo)?;
    }
    injector.inject()?;
    // Some faults are felt by callers alone.
    let _caller = call(&calling);
    let _opener = open(&calling);
    let _writer = Command::new(std::env::current_exe()?).arg("write").arg(&pipe).spawn()?;
    let deadline = Instant::now() + PATIENCE;
    let evidence = loop {
        match injector.witness() {
            Some(evidence) => break evidence,
            None if Instant::now() > deadline => return Err("no witness".into()),
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    let ready = json!({
        "evidence": evidence,
        "cgroups": cgroups,
        "ranks": ranks.iter().map(|rank| (rank.pid, rank.start_time)).collect::<Vec<_>>(),
        "undo": undos,
        "guard": guard.pid(),
    });
    // Standard output is shared with the untied rank, which beats on it: a line of its own.
    eprintln!("{ready}");
    io::stdin().read_line(&mut String::new())?;
    thread::sleep(PATIENCE);
    Err("nobody killed this agent".into())
}

/// Another process opens a file in the storage of node 0; nobody waits for it.
fn open(nodes: &[VirtualNode]) -> Option<Child> {
    let file = nodes[0].storage()?.0.join("opened");
    let program = std::env::current_exe().ok()?;
    nodes[0].inside(|| Command::new(program).arg("open").arg(file).spawn()).ok()?.ok()
}

/// Calls the rendezvous port of node 0 from node 1; nobody need answer.
fn call(nodes: &[VirtualNode]) -> Option<TcpStream> {
    let port = SocketAddr::from((nodes[0].address(), 4700));
    nodes[1].inside(|| TcpStream::connect_timeout(&port, PATIENCE)).ok()?.ok()
}

type Built = (Arc<Vec<VirtualNode>>, Arc<Fabric>);

fn build(directory: &Path) -> Result<Built, Box<dyn Error>> {
    let isolation = node::isolation().isolation;
    let limits = NodeLimits { shm_size: Some(Bytes(8 << 20)), ..NodeLimits::default() };
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let mut nodes = Vec::new();
    let mut ports = Vec::new();
    for node in 0..2 {
        let tag = format!("{name}-{}", std::process::id());
        let storage = directory.join(format!("storage{node}"));
        fs::create_dir(&storage)?;
        let (ranks, limits) = (vec![node], limits.clone());
        let spec = NodeSpec { node, ranks, limits, storage: Some(storage), tag };
        let (built, port) = VirtualNode::build(&spec, isolation)?;
        nodes.push(built);
        ports.extend(port);
    }
    Ok((Arc::new(nodes), Arc::new(Fabric::start(ports, 7)?)))
}

fn spawn(
    node: &VirtualNode,
    send_to: Option<&str>,
    time: Option<Arc<OwnedFd>>,
) -> Result<Process, Box<dyn Error>> {
    let hold = (16 << 20).to_string();
    let args = ["rank", &*hold].into_iter().chain(send_to).map(Into::into).collect();
    let program = std::env::current_exe()?;
    let entry = Some(Entry { time, ..node.entry(node.node()) });
    Ok(process::spawn(SpawnRequest { program, args, entry, ..SpawnRequest::default() })?)
}

fn rank_process((rank, process): (u32, &Process)) -> RankProcess {
    RankProcess {
        rank,
        node: rank,
        pid: process.pid,
        start_time: process.start_time,
        clock_ahead: None,
    }
}
