"""Questions about a space and commands to it: records, queries, snapshot, local socket."""
