//! Buffers for packets that wait, so that no packet costs an allocation once the pool is warm.

use std::sync::{Mutex, PoisonError};

/// Capacities: an ordinary packet, a short GSO packet, the largest there is.
const CLASSES: [usize; 3] = [2 << 10, 16 << 10, (64 << 10) + 512];
/// How many free buffers of a class are kept.
const KEPT: usize = 256;

/// Free buffers of every class.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: [Mutex<Vec<Vec<u8>>>; CLASSES.len()],
}

impl Pool {
    /// An empty buffer that holds `length` bytes without growing.
    pub(super) fn take(&self, length: usize) -> Vec<u8> {
        let class = CLASSES.iter().position(|&c| c >= length).unwrap_or(CLASSES.len() - 1);
        let free = self.free[class].lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Vec::with_capacity(CLASSES[class].max(length)))
    }

    /// Takes a buffer back.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        let Some(class) = CLASSES.iter().position(|&c| c == buffer.capacity()) else { return };
        buffer.clear();
        let mut free = self.free[class].lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_large_enough() {
        let pool = Pool::default();
        let mut buffer = pool.take(1500);
        buffer.extend([1; 1500]);
        let place = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take(2000);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert!(pool.take(65_000).capacity() >= 65_000);
    }
}
