"""Indexes that are built beside the table and committed later (`storage/indices.py`)."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import Index, LanceOperation
from lance.query import MatchQuery, PhraseQuery

from tests.lance_facts.lance_tables import commit, covered, create, fragments, ids, index, rows


def build(table, *indices):
    return commit(table, LanceOperation.CreateIndex(list(indices), []))


def found(table, query):
    return sorted(table.to_table(columns=["id", "_score"], full_text_query=query)["id"].to_pylist())


def vectors(count):
    values = np.random.default_rng(1).random(count * 8, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), 8)
    return pa.table({"id": [f"v{n}" for n in range(count)], "vec": column})


# stage_indices: all indexes of a table are one version.
def test_several_indexes_are_one_commit(tmp_path):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    made = build(table, index(table, "id", "BTREE"), index(table, "n", "BITMAP"))
    assert made.version == table.version + 1
    assert covered(made, "id_BTREE") == covered(made, "n_BITMAP") == {0, 1}
    assert "id_BTREE" in made.scanner(filter="id = 'r2'").explain_plan()
    assert "n_BITMAP" in made.scanner(filter="n = 2").explain_plan()


# stage_indices replaces by removing the old segments in the same commit.
def test_an_index_that_is_removed_in_the_same_commit_is_replaced(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table = build(table, index(table, "id", "BTREE"))
    (old,) = table.describe_indices()
    (segment,) = old.segments
    removed = Index(
        segment.uuid, old.name, list(old.fields), 2, segment.fragment_ids, segment.index_version
    )
    new = index(table, "id", "BTREE")
    made = commit(table, LanceOperation.CreateIndex([new], [removed]))
    ((only,),) = [i.segments for i in made.describe_indices()]
    assert only.uuid == new.uuid


# stage_indices refuses it with a clearer message.
def test_a_name_cannot_go_to_another_column(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table = build(table, index(table, "id", "BTREE"))
    with pytest.raises(RuntimeError, match="different fields"):
        table.create_index_uncommitted(
            "n", "BTREE", name="id_BTREE", replace=True, fragment_ids=[0]
        )


# stage_indices(extend=True).
def test_a_second_segment_of_a_name_extends_the_index(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table = build(table, index(table, "id", "BTREE"), index(table, "text", "INVERTED"))
    table = commit(table, LanceOperation.Append(fragments(table, rows(2))))
    more = [
        table.create_index_uncommitted(c, k, name=f"{c}_{k}", replace=True, fragment_ids=[1])
        for c, k in (("id", "BTREE"), ("text", "INVERTED"))
    ]
    made = build(table, more[0], table.merge_existing_index_segments([more[1]]))
    assert covered(made, "id_BTREE") == {0, 1}
    assert ids(made, "id = 'r1'") + ids(made, "id = 'r2'") == ["r1", "r2"]
    assert found(made, "fox") == ["r1", "r2"]


# stage_indices extends a BITMAP and a LABEL_LIST by new rows only. When it fails, that may go.
@pytest.mark.parametrize("kind,stale", [("BTREE", 0), ("BITMAP", 1)])
def test_a_second_segment_with_a_changed_row_finds_it_by_its_old_value(tmp_path, kind, stale):
    table = create(tmp_path / "t", rows(1, 2))
    table = build(table, index(table, "n", kind))
    changed = rows(2).set_column(1, "n", pa.array([1000], pa.int32()))
    table.merge_insert("id").when_matched_update_all().execute(changed)
    table = lance.dataset(table.uri)
    assert ids(table, "n = 2") == []
    (new,) = {f.fragment_id for f in table.get_fragments()} - covered(table, f"n_{kind}")
    more = table.create_index_uncommitted(
        "n", kind, name=f"n_{kind}", replace=True, fragment_ids=[new]
    )
    assert len(ids(build(table, more), "n = 2")) == stale


# Reads are right while an index lags: rows that it does not cover are scanned.
def test_rows_that_an_index_does_not_cover_are_found(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table = build(table, index(table, "id", "BTREE"), index(table, "text", "INVERTED"))
    made = commit(table, LanceOperation.Append(fragments(table, rows(2))))
    assert ids(made, "id = 'r2'") == ["r2"]
    assert found(made, "fox") == ["r1", "r2"]


# write_segment merges the parts of a full-text index for this reason.
def test_a_full_text_index_without_its_merge_cannot_be_read(tmp_path):
    table = create(tmp_path / "t", rows(1))
    raw = table.create_index_uncommitted("text", "INVERTED", name="raw", fragment_ids=[0])
    with pytest.raises((OSError, ValueError, RuntimeError)):
        found(build(table, raw), "fox")


# TableSnapshot.search.
def test_full_text_finds_words_phrases_and_near_words(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2, text="fox red"))
    made = build(table, index(table, "text", "INVERTED", with_position=True))
    assert found(made, MatchQuery("fox", "text")) == ["r1", "r2"]
    assert found(made, PhraseQuery("red fox", "text")) == ["r1"]
    assert found(made, MatchQuery("rad", "text", fuzziness=1)) == ["r1", "r2"]


# TableSnapshot.search has no limit for this reason. When it fails, it may have one.
def test_a_limit_counts_rows_that_are_gone(tmp_path):
    table = create(tmp_path / "t", rows(*range(10)))
    table = build(table, index(table, "text", "INVERTED"))
    table.delete("n < 6")
    table.optimize.compact_files(materialize_deletions_threshold=0.0)
    table = lance.dataset(table.uri)

    def searched(**options):
        scan = table.scanner(
            columns=["id", "_score"], full_text_query="fox", with_row_address=True, **options
        )
        return sorted(scan.to_table()["id"].to_pylist())

    assert searched() == ["r6", "r7", "r8", "r9"]
    assert len(searched(limit=4)) < 4


# TableSnapshot.search: match and phrase need no index.
def test_full_text_without_an_index_finds_words_and_phrases(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2, text="fox red"))
    assert found(table, MatchQuery("fox", "text")) == ["r1", "r2"]
    assert found(table, PhraseQuery("red fox", "text")) == ["r1"]


# TextIndex leaves rows that no index covers to postings, for this reason among others.
def test_fuzzy_search_without_an_index_finds_nothing(tmp_path):
    table = create(tmp_path / "t", rows(1))
    assert found(table, MatchQuery("rad", "text", fuzziness=1)) == []


# TableSnapshot.search passes a number for this reason, although Lance documents None as "auto".
def test_fuzziness_none_is_not_fuzzy(tmp_path):
    table = create(tmp_path / "t", rows(1))
    made = build(table, index(table, "text", "INVERTED"))
    auto: Any = None
    assert found(made, MatchQuery("rad", "text", fuzziness=auto)) == []


# TextIndex looks for stems, and not with a fuzziness of 0.
def test_a_fuzzy_query_is_stemmed_only_without_edits(tmp_path):
    table = create(tmp_path / "t", rows(1, text="courses of fox"))
    made = build(table, index(table, "text", "INVERTED"))
    assert found(made, MatchQuery("courses", "text")) == ["r1"]
    assert found(made, MatchQuery("coursesx", "text", fuzziness=1)) == []
    assert found(made, MatchQuery("cours", "text", fuzziness=1)) == ["r1"]
    assert found(made, MatchQuery("cours", "text", fuzziness=0)) == []


# TextIndex answers for texts of plain letters only. When it fails, it may answer for more.
def test_words_are_stemmed_before_they_lose_their_accents(tmp_path):
    table = create(tmp_path / "t", rows(1, text="résumé"), rows(2, text="図書館"))
    made = build(table, index(table, "text", "INVERTED"))
    assert found(made, MatchQuery("resume", "text")) == []
    assert found(made, MatchQuery("図書", "text")) == []


# TableSnapshot.search raises the number of similar words for this reason.
def test_a_fuzzy_query_looks_for_fifty_similar_words(tmp_path):
    table = create(tmp_path / "t", rows(*range(100, 200), text="n"))
    made = build(table, index(table, "text", "INVERTED"))
    assert len(found(made, MatchQuery("155", "text", fuzziness=2))) == 50
    everything = MatchQuery("155", "text", fuzziness=2, max_expansions=1000)
    assert len(found(made, everything)) == 100


# stage_indices: vector indexes by cosine distance, parameters as given.
@pytest.mark.parametrize(
    "kind,options",
    [
        ("IVF_FLAT", {}),
        ("IVF_PQ", {"num_sub_vectors": 4}),
        ("IVF_HNSW_FLAT", {}),
        ("IVF_HNSW_SQ", {}),
        ("IVF_HNSW_PQ", {"num_sub_vectors": 4}),
    ],
)
def test_vector_indexes_are_staged(tmp_path, kind, options):
    table = lance.write_dataset(vectors(300), str(tmp_path / "t"), enable_stable_row_ids=True)
    staged = index(table, "vec", kind, metric="cosine", num_partitions=2, **options)
    assert lance.dataset(table.uri).version == 1
    made = build(table, staged)
    query = {"column": "vec", "q": [0.5] * 8, "k": 3, "metric": "cosine", "refine_factor": 20}
    scanner = made.scanner(columns=["id", "_distance"], nearest=query)
    assert "ANNSubIndex" in scanner.explain_plan()
    assert scanner.to_table().num_rows == 3


# stage_indices leaves such an index out.
def test_a_vector_index_over_no_vectors_cannot_be_built(tmp_path):
    empty = pa.table({"vec": pa.array([None], pa.list_(pa.float32(), 8))})
    table = lance.write_dataset(empty, str(tmp_path / "t"))
    with pytest.raises(RuntimeError, match="cannot train"):
        index(table, "vec", "IVF_FLAT", metric="cosine", num_partitions=1)


# stage_indices leaves it out below 256 vectors for this reason: it would cover nothing.
def test_product_quantization_of_few_vectors_covers_nothing(tmp_path):
    table = lance.write_dataset(vectors(20), str(tmp_path / "t"))
    staged = index(table, "vec", "IVF_PQ", metric="cosine", num_partitions=1, num_sub_vectors=4)
    assert set(staged.fragment_ids) == set()


# TableSnapshot.nearest: vectors behind the index are compared one by one.
def test_vectors_that_an_index_does_not_cover_are_found(tmp_path):
    table = lance.write_dataset(vectors(300), str(tmp_path / "t"), enable_stable_row_ids=True)
    table = build(table, index(table, "vec", "IVF_FLAT", metric="cosine", num_partitions=4))
    new = pa.table({"id": ["new"], "vec": pa.array([[9.0] * 8], pa.list_(pa.float32(), 8))})
    table = lance.write_dataset(new, table, mode="append")
    query = {"column": "vec", "q": [1.0] * 8, "k": 1, "metric": "cosine"}
    assert table.to_table(nearest=query)["id"].to_pylist() == ["new"]


# stage_indices builds nothing on a table without rows for this reason.
def test_a_bitmap_cannot_be_built_without_rows(tmp_path):
    with pytest.raises(ValueError, match="requires train"):
        index(create(tmp_path / "t"), "n", "BITMAP")
