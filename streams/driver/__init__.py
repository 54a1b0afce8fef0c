"""The test driver: a topology in plain Python, record by record."""
