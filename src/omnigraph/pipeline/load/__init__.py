"""Loads: any input, of any size, as one commit or not at all."""
