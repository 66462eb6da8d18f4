"""Merges of states with different schemas: outcome → terms → rows → columns."""
