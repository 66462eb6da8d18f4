"""Where a graph can live."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import UsageError
from omnigraph.storage.location import Location


def test_a_local_place_is_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("graph", "./x/../graph", str(tmp_path / "graph"), f"file://{tmp_path}/graph"):
        location = Location.of(text)
        assert location.uri == str(tmp_path.resolve() / "graph")
        assert location.is_local
    assert Location.of(Path("~/g")).uri == str(Path.home() / "g")


def test_a_place_on_s3_has_a_bucket_and_a_prefix():
    location = Location.of("s3://bucket/some/prefix/")
    assert not location.is_local
    assert location.child("nodes/x") == "s3://bucket/some/prefix/nodes/x"
    assert str(location) == "s3://bucket/some/prefix"


@pytest.mark.parametrize("text", ["", "s3://bucket", "s3://bucket/", "s3:///x", "gs://bucket/x"])
def test_other_places_are_refused(text):
    with pytest.raises(UsageError):
        Location.of(text)


def test_a_path_may_have_any_characters(tmp_path):
    for name in ("a b", "ä", "50%", "a#b", "[x]", "it's", "why?", "new\nline"):
        location = Location.of(tmp_path / name)
        assert location.child("x") == str(tmp_path / name / "x")
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
        assert Path(location.store_address("x")).samefile(tmp_path / name / "x")


def test_a_path_is_told_by_its_folder_not_by_its_name(tmp_path):
    location = Location.of(tmp_path / "ä")
    (tmp_path / "ä").mkdir()
    first = location.store_address("x")
    assert location.store_address("x") == first
    (tmp_path / "ä").rename(tmp_path / "ö")
    (tmp_path / "ä").mkdir()
    (tmp_path / "ä/x").touch()
    assert Path(location.store_address("x")).exists()
    assert not Path(first).exists()


def test_a_file_address_is_read_as_an_address(tmp_path):
    assert Location.of(f"file://{tmp_path}/a%20%3Fb").uri == str(tmp_path / "a ?b")
    for end in ("a?b", "a#b"):
        with pytest.raises(UsageError, match="write `\\?` as %3F"):
            Location.of(f"file://{tmp_path}/{end}")
