"""Other engines' formats: models that leave, and models that come."""
