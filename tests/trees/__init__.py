"""Trees: brackets, cleaning, linearisation, scores, drawings."""
