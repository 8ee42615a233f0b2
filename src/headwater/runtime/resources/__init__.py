"""The resources of an open space: when each is requested, and what is written of its results."""
