"""Nodes and the edges between them: readers, writers, liveness, order."""
