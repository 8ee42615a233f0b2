"""Generated programs: as data, as Python source of an app, and as a naive model that recomputes every value."""
