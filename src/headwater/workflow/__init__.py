"""Workflows: the rules and tables of work that lasts for days and acts on outside services."""
