"""The spaces of a server: channels, client connections, sockets."""
