"""What translations must contain and must not: terms, placeholders, forbidden words."""
