"""Graphs that are started many times: patterns, what builds them, and the pieces that come of them."""
