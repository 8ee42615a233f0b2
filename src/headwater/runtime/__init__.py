"""One open space over ports: functions, events, restoring, pieces, resources, workflow runs. No IO of its own."""
