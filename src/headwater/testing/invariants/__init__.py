"""Checkers of the invariants, over records, traces and stores. Read only."""
