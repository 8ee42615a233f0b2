"""What authors declare: functions, events, lists, patterns, resources, workflows. No thread, file, socket or clock."""
