"""Patterns: functions that build a graph which is started many times; what building one plans and stores."""
