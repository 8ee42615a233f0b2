"""A pass: from a change to invalid nodes to runs; gates, attempts, pulls, stored observations."""
