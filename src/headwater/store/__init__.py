"""Where commits are decided and kept: one log per space, and everything else folded from it. Never knows replicas."""
