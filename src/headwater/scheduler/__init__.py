"""Decides which functions have to run after a change, and in which order. Knows no apps, files or threads."""
