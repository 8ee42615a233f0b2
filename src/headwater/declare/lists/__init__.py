"""Lists whose elements are computed one by one: `each`, `select`, `flat_each`."""
