"""Runs of nodes: from a change to invalid nodes; gates, attempts, pulls, stored observations."""
