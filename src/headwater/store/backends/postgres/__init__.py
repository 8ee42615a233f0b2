"""A space in a PostgreSQL database: all of its SQL. Connections and waiting are those of `host.postgres`."""
