"""The replica of a space in one process, and transactions, cells and documents on top of it."""
