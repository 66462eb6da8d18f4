"""The schema language `.pg`: text → tree → checked types → catalog, and back to text."""
