"""The pieces of an open space: started, restored, stopped."""
