"""Handlers and streams: what events carry, and what a sender holds."""
