"""Searching: words of texts and nearness of vectors, with and without indexes, and ranking.

Loaded by the first query that searches.
"""
