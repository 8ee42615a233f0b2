"""Planted mistakes: the figure of how many of them the worlds find says what the worlds can see.

`./hw mutants` plays worlds on each of them. docs/internals/mutants.md has the table.
"""
