"""The server: who may do what to which space, what is heard of it, and the sockets in front."""
