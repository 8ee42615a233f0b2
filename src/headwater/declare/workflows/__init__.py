"""Workflows: topics, producers, consumers, connectors and webhooks."""
