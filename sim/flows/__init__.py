"""Generated workflows: as data, as Python source, and the outside that their effects reach."""
