//! The draws of a plan: one ChaCha stream for each thing that is drawn, found by its name, so that
//! an added fault does not reshuffle the others.

use rand::{Rng, SeedableRng, rngs::ChaCha8Rng};

/// A source of draws.
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    fn new(seed: u64, what: &str, name: &str) -> Draws {
        // The whole key is spelled out: how `rand` stretches a short seed may change.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(fnv1a(&format!("{what}\0{name}")));
        Draws(rng)
    }

    /// A number below `bound`, which is above 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The bias of this is below bound / 2^32; the mapping, unlike that of `random_range`,
        // belongs to this file and does not change with a version of `rand`.
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// `count` of the numbers below `bound`, in ascending order; all when there are fewer.
    pub(super) fn some_below(&mut self, bound: u32, count: u32) -> Vec<u32> {
        let mut pool: Vec<u32> = (0..bound).collect();
        let mut chosen: Vec<u32> = (0..count.min(bound))
            .map(|_| {
                let left = u32::try_from(pool.len()).expect("no longer than bound");
                pool.swap_remove(self.below(left) as usize)
            })
            .collect();
        chosen.sort_unstable();
        chosen
    }
}

/// The draws for the target of a fault.
pub(super) fn of_fault(seed: u64, name: &str) -> Draws {
    Draws::new(seed, "fault", name)
}

/// The seed that a case hands on to what draws while it runs.
pub(super) fn seed_of_case(seed: u64, column: &str, row: &str, repetition: u32) -> u64 {
    Draws::new(seed, "case", &format!("{column}\0{row}\0{repetition}")).0.next_u64()
}

/// The 64-bit FNV-1a hash: it must be the same in every build, which `std`'s hasher does not promise.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that somebody wrote down must give the same targets in every later version.
    #[test]
    fn draws_are_pinned_for_ever() {
        let mut draws = of_fault(7, "kill");
        let first: Vec<u32> = (0..8).map(|_| draws.below(100)).collect();
        assert_eq!(first, [16, 57, 38, 13, 69, 61, 46, 76]);
    }

    #[test]
    fn a_choice_is_ascending_and_without_repeats() {
        for seed in 0..50 {
            let chosen = of_fault(seed, "x").some_below(9, 4);
            assert_eq!(chosen.len(), 4);
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
            assert!(chosen.iter().all(|&n| n < 9));
        }
        assert_eq!(of_fault(1, "x").some_below(2, 5), [0, 1]);
    }
}
