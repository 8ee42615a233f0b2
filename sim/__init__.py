"""Worlds: the whole product on simulated threads, time, disks and network, with faults and oracles, from one seed.

`./hw sim` plays them. docs/internals/simulation.md explains how to use it.
"""
