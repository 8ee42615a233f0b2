"""The protocol between a replica and a server: two sessions that exchange frames. No sockets, no threads, no time."""
