"""Worlds of one process: an embedded space, its threads and sessions, restarts and changed code."""
