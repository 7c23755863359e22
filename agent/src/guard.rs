//! The small process beside the agent that heals at once when the agent dies.
