"""Lists whose elements are computed one by one: `hw.each`, `hw.select`, `hw.flat_each`."""
