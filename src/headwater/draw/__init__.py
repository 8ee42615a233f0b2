"""Pictures of a space's graph: SVG, Mermaid, text. Reads snapshots; never knows a space, a scheduler or a file."""
