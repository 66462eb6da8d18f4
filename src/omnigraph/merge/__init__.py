"""Merging and comparing states of a graph.

`ancestors` finds where two commits come from and `base` the state there, `changes` what changed
since, `three_way` puts both sides together, `combine` sees to the schema's rules, `conflicts` are
what is left for a person, `apply` writes the outcome, and reverts and picks commits. `diff`
compares any two states, and `feed` tells what the commits of a branch changed.
"""
