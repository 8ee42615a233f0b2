"""HTTP pages of the server: health, metrics, backups, topics."""
