"""Worlds of one space file: what its sessions do, and a naive model of what has to come of it."""
