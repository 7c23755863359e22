//! Packets on their way to one node, by time of arrival, and the thread's wait for the next one.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ringbreaker_scenarios::units::Nanos;

use crate::sys::clock;

/// How long before an arrival sleeping ends and looking at the clock begins: a sleeping thread wakes
/// up to this late on an idle virtual CPU.
const SPIN: Nanos = Nanos(50_000);
/// The head's time when the queue is empty.
const NEVER: u64 = u64::MAX;

/// Ordered by arrival, then by the order of insertion.
#[derive(Debug)]
struct Waiting<T> {
    at: Nanos,
    sequence: u64,
    item: T,
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Waiting<T> {}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Waiting<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.sequence)
    }
}

#[derive(Debug)]
struct State<T> {
    heap: BinaryHeap<Reverse<Waiting<T>>>,
    inserted: u64,
    closed: bool,
}

/// A queue that many threads fill and one empties.
#[derive(Debug)]
pub(super) struct DelayQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Time of the first arrival, for the spinning thread; [`NEVER`] when empty, 0 when closed.
    head: AtomicU64,
}

impl<T> DelayQueue<T> {
    pub(super) fn new() -> DelayQueue<T> {
        let state = State { heap: BinaryHeap::new(), inserted: 0, closed: false };
        DelayQueue {
            state: Mutex::new(state),
            changed: Condvar::new(),
            head: AtomicU64::new(NEVER),
        }
    }

    /// Puts an item in that is due at `at`.
    pub(super) fn push(&self, at: Nanos, item: T) {
        let mut state = self.lock();
        let sequence = state.inserted;
        state.inserted += 1;
        state.heap.push(Reverse(Waiting { at, sequence, item }));
        if at.0 < self.head.load(Ordering::Relaxed) {
            self.head.store(at.0, Ordering::Release);
            self.changed.notify_one();
        }
    }

    /// Waits for the next item that is due and takes it out, with its time. None: closed.
    pub(super) fn next(&self) -> Option<(Nanos, T)> {
        loop {
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            let now = clock::now();
            let Some(at) = state.heap.peek().map(|Reverse(first)| first.at) else {
                drop(self.changed.wait(state));
                continue;
            };
            let left = at.since(now);
            if left == Nanos::ZERO {
                return self.pop(&mut state);
            }
            if left > SPIN {
                drop(self.changed.wait_timeout(state, left.since(SPIN).into()));
            } else {
                drop(state);
                self.spin_until(at);
            }
        }
    }

    /// Ends [`DelayQueue::next`]; what is left is dropped with the queue.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.head.store(0, Ordering::Release);
        self.changed.notify_all();
    }

    fn pop(&self, state: &mut State<T>) -> Option<(Nanos, T)> {
        let Reverse(first) = state.heap.pop()?;
        let head = state.heap.peek().map_or(NEVER, |Reverse(next)| next.at.0);
        self.head.store(head, Ordering::Release);
        Some((first.at, first.item))
    }

    /// Until `at`, or until something earlier was put in.
    fn spin_until(&self, at: Nanos) {
        while clock::now() < at && self.head.load(Ordering::Acquire) >= at.0 {
            std::hint::spin_loop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Items come out by time, and those of one time in the order of insertion.
        #[test]
        fn items_leave_by_time_then_by_insertion(
            times in proptest::collection::vec(0u64..20, 1..60),
        ) {
            let queue = DelayQueue::new();
            for (i, at) in times.iter().enumerate() {
                queue.push(Nanos(*at), i);
            }
            let mut want: Vec<_> = times.iter().enumerate().map(|(i, at)| (*at, i)).collect();
            want.sort_unstable();
            let got: Vec<_> =
                (0..times.len()).filter_map(|_| queue.next()).map(|(at, i)| (at.0, i)).collect();
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn an_item_never_leaves_before_its_time_and_an_earlier_one_goes_first() {
        let queue = DelayQueue::new();
        let start = clock::now();
        let (late, early) = (start + Nanos::from_millis(60), start + Nanos::from_millis(20));
        thread::scope(|scope| {
            let taker = scope.spawn(|| {
                [(); 2].map(|()| {
                    let (at, name) = queue.next().unwrap();
                    assert!(clock::now() >= at);
                    name
                })
            });
            queue.push(late, "late");
            queue.push(early, "early");
            assert_eq!(taker.join().unwrap(), ["early", "late"]);
        });
    }

    #[test]
    fn closing_ends_the_wait_of_a_sleeping_taker() {
        let queue = DelayQueue::new();
        queue.push(clock::now() + Nanos::from_secs(3600), ());
        thread::scope(|scope| {
            let taker = scope.spawn(|| queue.next());
            thread::sleep(Duration::from_millis(5));
            queue.close();
            assert!(taker.join().unwrap().is_none());
        });
    }
}
