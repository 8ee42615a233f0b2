"""What one process sees and writes: the replica, and (later) transactions and cells over it. Never knows nodes."""
