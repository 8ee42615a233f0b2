"""Workflow runs: deployment, execution phase by phase, repairs, reconciliation."""
