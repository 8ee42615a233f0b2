"""Work that goes on over days: what starts it, what it has done, and what has to be asked."""
