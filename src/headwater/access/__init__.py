"""Grants, tokens, keys, rights and the audit log of a server."""
