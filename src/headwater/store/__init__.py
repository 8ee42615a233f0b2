"""The store: decides commits and writes one log per space; everything else is folded from the log."""
