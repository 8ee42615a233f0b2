"""Where the core meets the machine: threads, clocks, files. Performs what the core decides; decides nothing."""
