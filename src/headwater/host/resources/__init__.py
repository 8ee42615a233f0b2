"""What is outside, as values: resources that are asked for when somebody looks, and the time."""
