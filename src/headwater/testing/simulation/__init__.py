"""A simulated machine: threads, time, files and network of a world that is a function of its seed."""
