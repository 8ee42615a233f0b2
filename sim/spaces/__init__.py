"""Worlds of one program with several spaces: functions that read across, events and posts that are sent across."""
