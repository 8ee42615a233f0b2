"""The pass: which invalid nodes run next, with events between them; missing documents, outstanding work."""
