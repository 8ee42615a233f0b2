"""Checks of what a world left behind."""
