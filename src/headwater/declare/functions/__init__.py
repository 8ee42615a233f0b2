"""Computed functions and sinks: options, arguments, instances, fingerprints."""
