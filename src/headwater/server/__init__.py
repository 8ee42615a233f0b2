"""The server: sockets, authentication, HTTP pages, ingress."""
