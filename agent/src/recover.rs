//! Undo by hand what a dead agent and a dead guard left: `ringbreaker recover`.
