"""What can be asked of a scheduler: trace, snapshot, counts, reasons."""
