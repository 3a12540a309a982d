"""Search over settings: ranges, trials, which comes next, and which is stopped early."""
