"""Constraints that need tables: phrases that must or must not occur, and trees."""
