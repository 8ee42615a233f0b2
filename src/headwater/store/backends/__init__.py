"""Databases the store can stand on: rows in, rows out, no rules."""
