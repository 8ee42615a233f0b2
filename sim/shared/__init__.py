"""The kind "shared": one real server, some real clients, and what they do."""
