"""Constituency trees: brackets in and out, cleaning, linearisation, EVALB's score, a drawing."""
