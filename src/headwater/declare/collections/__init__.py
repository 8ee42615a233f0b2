"""Collections, as authors declare and use them."""
