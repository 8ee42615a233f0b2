"""Spaces that a server has: the connection, and a replica that lives by it."""
