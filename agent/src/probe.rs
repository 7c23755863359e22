//! What this machine is and which faults it can carry, with reasons.
