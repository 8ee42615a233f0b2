"""Those that table `sync` compares with: a relay on the same WebSocket stack, and y-websocket with Yjs."""
