"""The backends of the store: databases that read and write rows, without rules."""
