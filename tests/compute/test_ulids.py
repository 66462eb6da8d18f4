"""ULIDs: 26 letters and digits that sort by the moment they were made in."""

from __future__ import annotations

import time

import pytest

from omnigraph.compute.ulids import made_at, mint_ulids, new_ulid


def test_they_tell_when_they_were_made():
    before = time.time()
    made = new_ulid()
    assert before - 0.001 <= made_at(made) <= time.time()
    assert made_at(made.lower()) == made_at(made)
    # As the specification of ULIDs has it.
    assert new_ulid(1469918176.385)[:10] == "01ARYZ6S41"
    assert made_at("01ARYZ6S41TSV4RRFFQ69G5FAV") == 1469918176.385


def test_they_are_different_and_sort_by_time():
    many = mint_ulids(5000).to_pylist()
    assert len(set(many)) == 5000
    assert {len(one) for one in many} == {26}
    moments = [0.0, 1.0, 1e9, time.time(), 2e9, 1e11]
    assert sorted(made := [new_ulid(at) for at in moments]) == made


@pytest.mark.parametrize("text", ["", "x", "01ARYZ6S41TSV4RRFFQ69G5FA", "U" * 26, "8" + "0" * 25])
def test_what_is_none(text):
    with pytest.raises(ValueError, match="is no ULID"):
        made_at(text)
