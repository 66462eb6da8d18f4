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


def test_those_of_one_column_ascend(monkeypatch):
    assert mint_ulids(0).to_pylist() == []
    for random in (b"\0" * 10, b"\xff" * 10, bytes(range(10))):
        monkeypatch.setattr("os.urandom", lambda count, random=random: random[:count])
        many = mint_ulids(70_000, 1469918176.385).to_pylist()
        assert many == sorted(set(many)) and len(many) == 70_000
        # Whatever the chance: they are ULIDs of this moment, and differ in their last digits only.
        assert {one[:18] for one in many} == {many[0][:18]}
        assert {made_at(one) for one in (many[0], many[-1])} == {1469918176.385}
        number = int.from_bytes(random, "big") >> 40
        assert made_digits(many[0])[10:18] == [number >> 5 * (7 - n) & 31 for n in range(8)]


def made_digits(ulid):
    return ["0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter) for letter in ulid]


@pytest.mark.parametrize("text", ["", "x", "01ARYZ6S41TSV4RRFFQ69G5FA", "U" * 26, "8" + "0" * 25])
def test_what_is_none(text):
    with pytest.raises(ValueError, match="is no ULID"):
        made_at(text)
