"""Which functions have to run because of a change, and in which order. Never knows apps, files or threads."""
