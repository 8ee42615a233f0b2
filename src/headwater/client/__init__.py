"""Spaces of a server: the connection, a replica over it, the local folder."""
