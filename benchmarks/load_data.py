"""A social network of any size as JSON lines: persons, and who knows whom, with popular ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SCHEMA = """
node Person { name: String @key  age: I32  city: String  score: F64 }
edge Knows: Person -> Person { since: I32? }
"""
_AT_ONCE = 50_000


def write_lines(path: Path, persons: int, edges: int, seed: int = 1) -> int:
    """Write a network; gives the size of the file."""
    chance = np.random.default_rng(seed)
    with path.open("w") as file:
        for start in range(0, persons, _AT_ONCE):
            count = min(_AT_ONCE, persons - start)
            ages = chance.integers(18, 90, count).tolist()
            cities = chance.integers(0, 5000, count).tolist()
            file.writelines(
                f'{{"type":"Person","data":{{"name":"person-{start + n}","age":{ages[n]},'
                f'"city":"city number {cities[n]}","score":{ages[n] / 7:.4f}}}}}\n'
                for n in range(count)
            )
        for start in range(0, edges, _AT_ONCE):
            count = min(_AT_ONCE, edges - start)
            sources = chance.integers(0, persons, count).tolist()
            targets = (persons * chance.random(count) ** 3).astype(int).tolist()
            years = chance.integers(1990, 2025, count).tolist()
            file.writelines(
                f'{{"edge":"Knows","from":"person-{sources[n]}","to":"person-{targets[n]}",'
                f'"data":{{"since":{years[n]}}}}}\n'
                for n in range(count)
            )
    return path.stat().st_size
