//! The threads behind a communicator of the stand-in, and abort.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use nix::errno::Errno;
use ringbreaker_scenarios::case::Rank;

use super::{
    super::{
        backend::{CallError, Check, CommStatus, Communicator, Handover, Op, OpStatus},
        code,
        data::{Data, POISON, shape},
    },
    Settings,
    bootstrap::{self, Identity, Refusal},
    log::Log,
    peers::Peers,
    ring::{Ring, partners},
    shm::Segment,
    socket::{Broken, Halt, listen_on},
};

/// How long abort takes once connections exist: NCCL 2.28.3 and 2.28.9 took 0.40 to 0.65 s, median
/// 0.53 s, in 47 calls. Peers see closed sockets only afterwards, which is why detection travels
/// around a ring at about 0.6 s a hop.
const ABORT_TAKES: Duration = Duration::from_millis(530);
/// How long communicator creation looks at the machine before it calls the root. NCCL took 0.33 to
/// 0.45 s for all of creation; the stand-in keeps enough of it for a fault to fall inside.
const LOOKS_AROUND: Duration = Duration::from_millis(50);
/// How long a shared-memory name exists (recorded: 19 to 29 ms).
const NAME_EXISTS: Duration = Duration::from_millis(20);

/// Who and where this rank is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) rank: Rank,
    pub(super) world: u32,
    pub(super) local: Ipv4Addr,
    pub(super) identity: Identity,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing is under way.
    Idle,
    /// An operation was handed over; its connections are being made.
    Connecting,
    /// It is running.
    Running,
    /// Its result is there.
    Finished,
}

#[derive(Debug)]
struct State {
    created: bool,
    failed: Option<CallError>,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Buffers {
    send: Vec<u8>,
    recv: Vec<u8>,
}

struct Shared {
    place: Place,
    settings: Settings,
    log: Arc<Log>,
    halt: Halt,
    state: Mutex<State>,
    changed: Condvar,
    buffers: Mutex<Buffers>,
    /// Outlive the thread that uses them: sockets stay open until abort ends or the process does.
    peers: Mutex<Option<Peers>>,
    segment: Mutex<Option<OwnedFd>>,
}

/// A communicator of the stand-in.
pub(super) struct HostCommunicator {
    shared: Arc<Shared>,
    operations: SyncSender<Op>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left is plain data; the panic itself ends the rank's operation.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl HostCommunicator {
    /// Starts creation; `status` tells how it goes.
    pub(super) fn begin(place: Place, settings: Settings, log: Arc<Log>) -> HostCommunicator {
        let halt = Halt::new().expect("invariant: a process can make a socket pair");
        let state = State { created: false, failed: None, progress: Progress::Idle };
        let shared = Arc::new(Shared {
            place,
            settings,
            log,
            halt,
            state: Mutex::new(state),
            changed: Condvar::new(),
            buffers: Mutex::default(),
            peers: Mutex::new(None),
            segment: Mutex::new(None),
        });
        let (operations, incoming) = sync_channel(1);
        let working = Arc::clone(&shared);
        thread::Builder::new()
            .name("host-proxy".to_owned())
            .spawn(move || working.live(&incoming))
            .expect("invariant: a process can start a thread");
        HostCommunicator { shared, operations }
    }
}

impl Shared {
    /// The proxy thread: creation, then operations, until the first error or the end.
    fn live(&self, incoming: &Receiver<Op>) {
        let mut result = self.create();
        if result.is_ok() {
            self.set(|state| state.created = true);
        }
        while result.is_ok() {
            let Ok(op) = incoming.recv() else { return };
            result = self.operate(&op);
        }
        if let Err(Refusal::Error(error)) = result {
            self.log.warn(&error.message);
            self.set(|state| state.failed = Some(error));
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    fn create(&self) -> Result<(), Refusal> {
        let Place { rank, world, local, identity } = self.place;
        let listener = listen_on(SocketAddrV4::new(local, 0), false).map_err(bind_failed)?;
        listener.set_nonblocking(true).map_err(|_| bind_failed(Errno::EINVAL))?;
        let at = match listener.local_addr() {
            Ok(std::net::SocketAddr::V4(at)) => at,
            _ => return Err(bind_failed(Errno::EINVAL)),
        };
        self.log.info(&format!("Bootstrap : Using {local}<0>, rank {rank} of {world}"));
        self.halt.pause(LOOKS_AROUND).map_err(Refusal::from)?;
        let addresses =
            bootstrap::join(identity, rank, world, at, &self.settings, &self.halt, &self.log)?;
        if self.settings.shm_at_init {
            self.take_segment()?;
        }
        *lock(&self.peers) = Some(Peers::new(rank, listener, addresses));
        Ok(())
    }

    fn take_segment(&self) -> Result<(), Refusal> {
        let mut held = lock(&self.segment);
        if held.is_none() {
            let segment = Segment::create().map_err(Refusal::Error)?;
            // The name must go even when the wait is cut short.
            let waited = self.halt.pause(NAME_EXISTS);
            *held = Some(segment.unlink());
            waited.map_err(Refusal::from)?;
        }
        Ok(())
    }

    fn operate(&self, op: &Op) -> Result<(), Refusal> {
        let Place { rank, world, .. } = self.place;
        self.take_segment()?;
        let mut peers = lock(&self.peers);
        let peers = peers.as_mut().expect("invariant: creation made the peers");
        let (to, from) = partners(op.collective, rank, world);
        peers.connect(&to, &from, &self.settings, &self.halt, &self.log)?;
        self.set(|state| state.progress = Progress::Running);
        let mut buffers = lock(&self.buffers);
        let Buffers { send, recv } = &mut *buffers;
        let size = op.dtype.size() as usize;
        let shape = shape(op, world);
        let ring = Ring { op, rank, world, peers, halt: &self.halt };
        let done = ring.run(&send[..shape.send * size], &mut recv[..shape.recv * size]);
        drop(buffers);
        done.map_err(|broken| match broken {
            Broken::Failed(error) => Refusal::Error(CallError::new(
                code::REMOTE_ERROR,
                format!("socketProgress: Call to recv or send failed : {}", error.desc()),
            )),
            other => Refusal::from(other),
        })?;
        self.set(|state| state.progress = Progress::Finished);
        Ok(())
    }
}

fn bind_failed(error: Errno) -> Refusal {
    let message = format!("Call to bind failed: {}", error.desc());
    Refusal::Error(CallError::new(code::SYSTEM_ERROR, message))
}

impl Communicator for HostCommunicator {
    fn status(&self) -> CommStatus {
        let state = lock(&self.shared.state);
        match (&state.failed, state.created, &state.progress) {
            (Some(error), ..) => CommStatus::Failed(error.clone()),
            (None, false, _) | (None, _, Progress::Connecting) => CommStatus::InProgress,
            _ => CommStatus::Ready,
        }
    }

    fn prepare(&self, op: &Op) -> Result<(), CallError> {
        let Place { rank, world, .. } = self.shared.place;
        let (shape, size) = (shape(op, world), op.dtype.size() as usize);
        let mut buffers = lock(&self.shared.buffers);
        buffers.send.resize(shape.send * size, 0);
        buffers.recv.clear();
        buffers.recv.resize(shape.recv * size, POISON);
        Data::new(op, world).fill(rank, &mut buffers.send);
        Ok(())
    }

    fn enqueue(&self, op: &Op) -> Result<Handover, CallError> {
        let Place { rank, world, .. } = self.shared.place;
        self.shared.log.operation(op);
        let (to, from) = partners(op.collective, rank, world);
        let connected = lock(&self.shared.segment).is_some()
            && lock(&self.shared.peers).as_ref().is_some_and(|peers| peers.has(&to, &from));
        let (progress, handover) = if connected {
            (Progress::Running, Handover::Taken)
        } else {
            (Progress::Connecting, Handover::Pending)
        };
        self.shared.set(|state| state.progress = progress);
        // The proxy thread ends after an error, which `status` reports.
        let _taken = self.operations.send(*op);
        Ok(handover)
    }

    fn wait(&self, at_most: Duration) -> OpStatus {
        let state = lock(&self.shared.state);
        let unfinished = |state: &mut State| state.progress != Progress::Finished;
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, at_most, unfinished)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.progress == Progress::Finished { OpStatus::Finished } else { OpStatus::Running }
    }

    fn check(&self, op: &Op) -> Result<Check, CallError> {
        let buffers = lock(&self.shared.buffers);
        Ok(Data::new(op, self.shared.place.world).check(self.shared.place.rank, 0, &buffers.recv))
    }

    fn abort(&self) -> i32 {
        self.shared.halt.halt();
        let connected = lock(&self.shared.state).progress != Progress::Idle;
        if connected {
            thread::sleep(ABORT_TAKES);
        }
        *lock(&self.shared.peers) = None;
        *lock(&self.shared.segment) = None;
        code::SUCCESS
    }

    fn finalize(&self, _at_most: Duration) -> Result<(), CallError> {
        // Every rank has all it needs and nothing is in flight: nothing can make this wait.
        *lock(&self.shared.peers) = None;
        *lock(&self.shared.segment) = None;
        Ok(())
    }

    fn transport(&self) -> Option<String> {
        Some("NET/Socket".to_owned())
    }
}
