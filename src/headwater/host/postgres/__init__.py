"""Spaces in PostgreSQL: URLs, connections, and which program owns a space. `store.backends.postgres` has the SQL."""
