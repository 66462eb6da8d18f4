"""The query language `.gq`: text → tree → checked → plan."""
