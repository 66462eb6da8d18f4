"""Looking after a graph: checking it, keeping it compact, mending it."""
