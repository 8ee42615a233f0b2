"""Workflow states as text for people: stories, refusals, schedules, the status document."""
