"""What Headwater costs: counts and slopes first, then times as ratios to a peer in the same run."""
