//! A non-blocking communicator of real NCCL.
//!
//! The rank's main thread issues operations, its watchdog asks for the status and may abort at any
//! moment. Calls on the communicator are kept apart by a lock, because ncclCommGetAsyncError is no
//! mere look: it joins the thread of a finished group (init.cc of 2.28). With a non-blocking
//! communicator every call is short, so nobody waits long; where NCCL_COMM_BLOCKING=1 makes it
//! blocking all the same, the status does not wait for the lock and abort waits [`ABORT_PATIENCE`].
//!
//! An event means nothing before NCCL has put its kernel on the stream: a call that returned
//! ncclInProgress is marked by an event only once the status is ready again. It means nothing after
//! abort has begun either: it then reports success (measured on 2.28.3 and 2.28.9).

use std::{
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ringbreaker_scenarios::case::Rank;

use super::{
    super::{
        backend::{CallError, Check, CommStatus, Communicator, Handover, Op, OpStatus},
        code,
    },
    buffers::Buffers,
    config::Config,
    cuda::{CudaError, Device, Stream},
    library::{Comm, Loaded, UniqueId},
    log,
    operation::{self, Ground},
};

/// How long abort waits for a call that another thread is inside of; only a communicator that was
/// made blocking keeps a call that long. Aborting beside it is then what NCCL offers abort for.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);
/// How often something that others decide is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// Short operations are looked at without a pause for this long,
const EAGER: Duration = Duration::from_micros(300);
/// then at this distance.
const PAUSE: Duration = Duration::from_micros(50);

/// The place that NCCL writes the communicator's handle to. It may do so twice: early in the call,
/// and once more when a background thread has ended creation (init.cc of 2.28). So the place is
/// never freed.
#[derive(Clone, Copy)]
struct Cell(&'static AtomicPtr<std::ffi::c_void>);

impl Cell {
    fn new() -> Cell {
        Cell(Box::leak(Box::new(AtomicPtr::new(ptr::null_mut()))))
    }

    fn get(self) -> Comm {
        self.0.load(Ordering::Acquire)
    }

    const fn place(self) -> *mut Comm {
        self.0.as_ptr()
    }
}

/// How the call that creates the communicator went.
enum Creation {
    /// A blocking call that has not returned.
    Inside,
    /// It was taken; what comes of it is the communicator's asynchronous error.
    Taken,
    /// It failed.
    Failed(CallError),
}

/// How far the operation in flight is.
enum Progress {
    /// NCCL has not put it on the stream yet.
    Pending,
    /// It is on the stream.
    Running {
        /// Since when.
        since: Instant,
    },
    /// It has left the stream.
    Finished,
}

/// A communicator. Dropping it frees nothing: see `cuda` for why.
pub(super) struct NcclCommunicator {
    nccl: Arc<Loaded>,
    device: Arc<Device>,
    rank: Rank,
    world: u32,
    cell: Cell,
    stream: Stream,
    /// Held by whoever calls NCCL.
    calls: Mutex<Creation>,
    /// Nobody calls NCCL about this communicator after it.
    gone: AtomicBool,
    /// Since when the event marks the operation in flight; none: not yet.
    marked: Mutex<Option<Instant>>,
    buffers: Mutex<Option<Buffers>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left is plain data; the panic itself ends the rank's operation.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Who a rank is in a communicator.
pub(super) struct Place {
    pub(super) id: UniqueId,
    pub(super) rank: Rank,
    pub(super) world: u32,
}

impl NcclCommunicator {
    /// Begins creation. `blocking`: NCCL_COMM_BLOCKING overrides what the communicator is asked to
    /// be, so the call is made from a thread of its own.
    pub(super) fn begin(
        nccl: &Arc<Loaded>,
        device: &Arc<Device>,
        place: Place,
        blocking: bool,
    ) -> Result<Arc<NcclCommunicator>, CallError> {
        let communicator = Arc::new(NcclCommunicator {
            nccl: Arc::clone(nccl),
            device: Arc::clone(device),
            rank: place.rank,
            world: place.world,
            cell: Cell::new(),
            stream: device.stream()?,
            calls: Mutex::new(Creation::Inside),
            gone: AtomicBool::new(false),
            marked: Mutex::new(None),
            buffers: Mutex::new(None),
        });
        if !blocking {
            let result = communicator.create(&place);
            *lock(&communicator.calls) = Creation::Taken;
            return result.map(|()| communicator);
        }
        let creating = Arc::clone(&communicator);
        let body = move || {
            let result = creating.device.enter().map_err(CallError::from);
            let result = result.and_then(|()| creating.create(&place));
            *lock(&creating.calls) = result.map_or_else(Creation::Failed, |()| Creation::Taken);
        };
        thread::Builder::new().name("nccl-init".to_owned()).spawn(body).map_err(|error| {
            CallError::new(code::SYSTEM_ERROR, format!("no thread for a blocking init: {error}"))
        })?;
        Ok(communicator)
    }

    fn create(&self, place: &Place) -> Result<(), CallError> {
        let mut config = Config::non_blocking();
        let (ranks, rank) = (place.world.cast_signed(), place.rank.cast_signed());
        // SAFETY: the place of the handle is never freed, and the config outlives the call (NCCL
        // copies it: parseCommConfig in init.cc). The device's context is current in this thread.
        let code = unsafe {
            (self.nccl.functions.comm_init_rank_config)(
                self.cell.place(),
                ranks,
                place.id,
                rank,
                &raw mut config,
            )
        };
        self.accepted(code)
    }

    /// A code as a result; in progress is as good as done.
    fn accepted(&self, code: i32) -> Result<(), CallError> {
        match code {
            code::SUCCESS | code::IN_PROGRESS => Ok(()),
            code => Err(self.error(code)),
        }
    }

    /// An error with NCCL's last words, or the code's meaning where there are none.
    fn error(&self, code: i32) -> CallError {
        let message = self.nccl.last_error().unwrap_or_else(|| self.nccl.error_string(code));
        CallError::new(code, message)
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The asynchronous error; the caller holds the lock and has seen that the communicator is there.
    fn asynchronous(&self) -> CommStatus {
        let comm = self.cell.get();
        if comm.is_null() {
            return CommStatus::Failed(self.error(code::INTERNAL_ERROR));
        }
        let mut error = code::SUCCESS;
        // SAFETY: a communicator that was neither aborted nor destroyed, and nobody else calls it.
        let code = unsafe { (self.nccl.functions.comm_get_async_error)(comm, &raw mut error) };
        match (code, error) {
            (code::SUCCESS, code::SUCCESS) => CommStatus::Ready,
            (code::SUCCESS, code::IN_PROGRESS) => CommStatus::InProgress,
            (code::SUCCESS, code) | (code, _) => CommStatus::Failed(self.error(code)),
        }
    }

    /// The lock, once whoever has it leaves or the patience is over.
    fn lock_within(&self, patience: Duration) -> Option<MutexGuard<'_, Creation>> {
        let end = Instant::now() + patience;
        loop {
            match try_lock(&self.calls) {
                Some(guard) => return Some(guard),
                None if Instant::now() >= end => return None,
                None => thread::sleep(LOOK),
            }
        }
    }

    /// Marks the end of the operation that is on the stream.
    fn mark(&self) -> Result<(), CudaError> {
        self.stream.mark()?;
        *lock(&self.marked) = Some(Instant::now());
        Ok(())
    }

    fn progress(&self) -> Result<Progress, CudaError> {
        self.device.enter()?;
        if lock(&self.marked).is_none() && self.status() == CommStatus::Ready {
            self.mark()?;
        }
        match *lock(&self.marked) {
            None => Ok(Progress::Pending),
            Some(_) if self.stream.reached()? => Ok(Progress::Finished),
            Some(since) => Ok(Progress::Running { since }),
        }
    }

    fn destroy(&self) -> Result<(), CallError> {
        {
            // A watchdog that comes late may still be asking for the status.
            let _calling = lock(&self.calls);
            if self.gone.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            // SAFETY: finalised; the lock is held, and who takes it next sees that it is gone.
            let code = unsafe { (self.nccl.functions.comm_destroy)(self.cell.get()) };
            self.accepted(code)?;
        }
        match lock(&self.buffers).take() {
            Some(buffers) => Ok(buffers.free()?),
            None => Ok(()),
        }
    }
}

impl Communicator for NcclCommunicator {
    fn status(&self) -> CommStatus {
        // Somebody is inside a call: it is going on.
        let Some(creation) = try_lock(&self.calls) else { return CommStatus::InProgress };
        match &*creation {
            _ if self.is_gone() => CommStatus::InProgress,
            Creation::Inside => CommStatus::InProgress,
            Creation::Failed(error) => CommStatus::Failed(error.clone()),
            Creation::Taken => self.asynchronous(),
        }
    }

    fn prepare(&self, op: &Op) -> Result<(), CallError> {
        self.device.enter()?;
        let mut held = lock(&self.buffers);
        if held.is_none() {
            *held = Some(Buffers::new(&self.device, op, self.world)?);
        }
        match held.as_mut() {
            Some(buffers) => {
                Ok(buffers.prepare(&self.device, &self.stream, op, (self.rank, self.world))?)
            }
            None => Ok(()),
        }
    }

    fn enqueue(&self, op: &Op) -> Result<Handover, CallError> {
        self.device.enter()?;
        *lock(&self.marked) = None;
        let addresses = lock(&self.buffers).as_ref().map(Buffers::addresses);
        let Some((send, recv)) = addresses else {
            return Err(CallError::new(code::INVALID_USAGE, "enqueue before prepare"));
        };
        let _calling = lock(&self.calls);
        if self.is_gone() {
            return Err(CallError::new(code::INTERNAL_ERROR, "the communicator was aborted"));
        }
        let (comm, stream) = (self.cell.get(), self.stream.for_nccl());
        let ground = Ground { comm, stream, send, recv, rank: self.rank, world: self.world };
        // SAFETY: the communicator is live and the lock is held; `prepare` made the buffers large
        // enough, and they are exchanged or freed only when no operation is in flight.
        let code = unsafe { operation::call(&self.nccl.functions, op, &ground) };
        match code {
            code::SUCCESS => {
                self.mark()?;
                Ok(Handover::Taken)
            }
            code::IN_PROGRESS => Ok(Handover::Pending),
            code => Err(self.error(code)),
        }
    }

    fn wait(&self, at_most: Duration) -> OpStatus {
        let begun = Instant::now();
        loop {
            let eager = match self.progress() {
                Ok(Progress::Finished) => return OpStatus::Finished,
                Ok(Progress::Running { since }) => since.elapsed() < EAGER,
                Ok(Progress::Pending) => false,
                Err(error) => return OpStatus::Failed(error.into()),
            };
            let waited = begun.elapsed();
            if waited >= at_most || self.is_gone() {
                return OpStatus::Running;
            }
            if eager {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE.min(at_most - waited));
            }
        }
    }

    fn check(&self, op: &Op) -> Result<Check, CallError> {
        self.device.enter()?;
        match lock(&self.buffers).as_mut() {
            Some(buffers) => Ok(buffers.check(&self.stream, op, (self.rank, self.world))?),
            None => Err(CallError::new(code::INVALID_USAGE, "check before prepare")),
        }
    }

    fn abort(&self) -> i32 {
        if self.gone.swap(true, Ordering::AcqRel) {
            return code::SUCCESS;
        }
        // Held, where it can be had, so that no call is cut off half-way.
        let _calling = self.lock_within(ABORT_PATIENCE);
        let comm = self.cell.get();
        if comm.is_null() {
            // Creation failed before there was anything.
            return code::SUCCESS;
        }
        // SAFETY: neither aborted nor destroyed before, since `gone` was not set; nothing calls NCCL
        // about it from here on. A call that outlasted the patience is what abort is documented to
        // end (user guide, "fault tolerance").
        unsafe { (self.nccl.functions.comm_abort)(comm) }
    }

    fn finalize(&self, at_most: Duration) -> Result<(), CallError> {
        let end = Instant::now() + at_most;
        self.device.enter()?;
        {
            let _calling = lock(&self.calls);
            let comm = self.cell.get();
            if self.is_gone() || comm.is_null() {
                return Ok(());
            }
            // SAFETY: a live communicator, and nobody else calls it.
            self.accepted(unsafe { (self.nccl.functions.comm_finalize)(comm) })?;
        }
        loop {
            match self.status() {
                CommStatus::Ready => return self.destroy(),
                CommStatus::Failed(error) => return Err(error),
                CommStatus::InProgress if self.is_gone() => return Ok(()),
                CommStatus::InProgress if Instant::now() >= end => {
                    let message = format!("ncclCommFinalize did not end within {at_most:?}");
                    return Err(CallError::new(code::IN_PROGRESS, message));
                }
                CommStatus::InProgress => thread::sleep(LOOK),
            }
        }
    }

    fn transport(&self) -> Option<String> {
        log::transport()
    }
}
