"""Workflows in a program: how they are declared, and the host that executes their runs."""
