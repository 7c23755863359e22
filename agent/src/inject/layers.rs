//! Kernel settings that several faults of a case change at once.
//!
//! Each fault would remember what it found and put that back. But faults overlap in any order: the first
//! to begin may be the first to end, and the second would then put back what the first had set, for ever.
//! So what was there before any of them is remembered once, with what each has set on top.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One setting of one kind for each key, such as the memory limit of each rank. Clones share it.
#[derive(Debug)]
pub(super) struct Layers<K, V>(Arc<Mutex<BTreeMap<K, Stack<V>>>>);

#[derive(Debug)]
struct Stack<V> {
    /// Before any fault.
    base: V,
    /// What each fault has set, in the order in which they did.
    set: Vec<(u32, V)>,
}

impl<K, V> Clone for Layers<K, V> {
    fn clone(&self) -> Self {
        Layers(Arc::clone(&self.0))
    }
}

impl<K, V> Default for Layers<K, V> {
    fn default() -> Self {
        Layers(Arc::default())
    }
}

impl<K: Ord, V: Clone> Layers<K, V> {
    fn stacks(&self) -> MutexGuard<'_, BTreeMap<K, Stack<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fault is about to set `value` where `now` is in force.
    pub(super) fn push(&self, key: K, fault: u32, now: V, value: V) {
        let mut stacks = self.stacks();
        let stack = stacks.entry(key).or_insert_with(|| Stack { base: now, set: Vec::new() });
        stack.set.push((fault, value));
    }

    /// What must be in force once this fault is healed; none: it has set nothing.
    pub(super) fn without(&self, key: &K, fault: u32) -> Option<V> {
        let stacks = self.stacks();
        let stack = stacks.get(key)?;
        stack.set.iter().find(|(id, _)| *id == fault)?;
        let others = stack.set.iter().rev().find(|(id, _)| *id != fault);
        Some(others.map_or(&stack.base, |(_, value)| value).clone())
    }

    /// This fault is healed.
    pub(super) fn forget(&self, key: &K, fault: u32) {
        let mut stacks = self.stacks();
        let Some(stack) = stacks.get_mut(key) else { return };
        stack.set.retain(|(id, _)| *id != fault);
        if stack.set.is_empty() {
            stacks.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_to_end_leaves_what_the_second_has_set_and_the_last_what_was_there_before_both() {
        let layers = Layers::default();
        layers.push("rank 0", 1, 100, 50);
        layers.push("rank 0", 2, 50, 40);
        assert_eq!(layers.without(&"rank 0", 1), Some(40));
        layers.forget(&"rank 0", 1);
        assert_eq!(layers.without(&"rank 0", 2), Some(100));
        assert_eq!(layers.without(&"rank 0", 1), None);
        assert_eq!(layers.without(&"rank 1", 2), None);
    }

    proptest! {
        #[test]
        fn whatever_the_order_the_last_to_end_finds_the_base(
            order in Just((0..6_u32).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let layers = Layers::default();
            let mut now = 1000;
            for fault in 0..6 {
                layers.push((), fault, now, fault);
                now = fault;
            }
            for fault in order {
                now = layers.without(&(), fault).unwrap();
                layers.forget(&(), fault);
            }
            prop_assert_eq!(now, 1000);
        }
    }
}
