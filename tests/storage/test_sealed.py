"""Only `storage/` knows Lance, and only two of its parts may move a table's HEAD."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph

SOURCE = Path(omnigraph.__file__).parent

#: Calls of Lance that make a version by themselves. `commit` is `LanceDataset.commit`,
#: `Compaction.commit` and `Compaction.execute` are told by their class.
COMMITTING = frozenset(
    {
        "add_columns", "alter_columns", "compact_files", "commit_batch",
        "commit_existing_index_segments", "create_index", "create_scalar_index", "delete",
        "delete_config_keys", "drop_columns", "drop_index", "insert", "merge",
        "migrate_manifest_paths_v2", "optimize_indices", "replace_field_metadata",
        "replace_schema", "replace_schema_metadata", "restore", "truncate_table", "update",
        "update_config", "update_field_metadata", "update_metadata", "update_schema_metadata",
        "write_dataset", "commit", "execute", "cleanup_old_versions", "add_bases", "shallow_clone",
        "deep_clone", "enable_auto_cleanup", "disable_auto_cleanup",
    }
)  # fmt: skip

#: Where such a call may stand: (file, function, call). Everything else is refused.
ALLOWED = {
    ("tables.py", "Tables.create", "write_dataset"),
    ("tables.py", "Tables.commit_staged", "commit"),
    # The manifest's publisher and its upkeep.
    ("ledger.py", "Ledger.create", "write_dataset"),
    ("ledger.py", "Ledger.publish", "execute"),
    ("ledger.py", "Ledger.prune", "commit"),
    ("ledger.py", "Ledger.put_rewrite", "commit"),
    ("ledger.py", "Ledger._replace", "commit"),
    ("ledger.py", "Ledger.set_metadata", "update_schema_metadata"),
    ("ledger.py", "Ledger.set_key", "update_field_metadata"),
    ("ledger.py", "Ledger.prune", "delete"),
    # The state that a branch starts with, before anybody can see the branch.
    ("ledger.py", "Ledger.change_rows", "execute"),
    ("ledger.py", "Ledger.change_rows", "delete"),
    # On an empty table in memory, of which only the schema is used.
    ("columns.py", "_changed", "write_dataset"),
    ("columns.py", "_changed", "commit"),
    ("columns.py", "_changed", "drop_columns"),
    ("columns.py", "_changed", "add_columns"),
    ("columns.py", "_alter", "alter_columns"),
    # Writes files of a fragment, and a version outside of the history (checked below).
    ("compaction.py", "rewrite", "execute"),
    ("tiers.py", "put_together", "execute"),
    ("compaction.py", "_indices", "commit"),
    # A branch of a table is deleted, which moves no HEAD.
    ("tables.py", "_delete_listed", "delete"),
    ("ledger.py", "Ledger.delete_branch", "delete"),
    # Objects.delete, a file.
    ("tables.py", "Tables.stage_compaction.forget", "delete"),
    ("bulk.py", "delete_files", "delete"),
}
#: Modules of the package that never hold a Lance object.
PLAIN = {
    "location.py", "lock.py", "objects.py", "local_objects.py", "bucket_objects.py", "__init__.py"
}  # fmt: skip


def imports_of_lance(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("__import__", "importlib.import_module", "import_module")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names = [str(node.args[0].value)]
        if any(name.split(".")[0] in ("lance", "pylance") for name in names):
            assert isinstance(node, ast.stmt | ast.expr)
            yield node.lineno


def committing_calls(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, str, int]]:
    """Each committing call: the function it stands in, its name, its line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from committing_calls(node, f"{scope}.{node.name}".lstrip("."))
            continue
        if isinstance(node, ast.Attribute) and node.attr in COMMITTING:
            yield scope, node.attr, node.lineno
        if isinstance(node, ast.Name) and node.id in ("write_dataset", "getattr"):
            yield scope, node.id, node.lineno
        yield from committing_calls(node, scope)


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_only_storage_imports_lance():
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in source_files()
        if path.parent != SOURCE / "storage"
        for line in imports_of_lance(ast.parse(path.read_text()))
    ]
    assert found == []


def test_plain_modules_of_storage_do_not_import_lance():
    for name in PLAIN:
        assert list(imports_of_lance(ast.parse((SOURCE / "storage" / name).read_text()))) == []


def test_no_other_call_moves_a_head():
    found = {
        (path.name, scope, call)
        for path in (SOURCE / "storage").glob("*.py")
        if path.name not in PLAIN
        for scope, call, _ in committing_calls(ast.parse(path.read_text()))
    }
    assert found - ALLOWED == set()
    assert ALLOWED - found == set(), "an exception that nothing uses any more"


def calls_of_commit(file: str) -> list[ast.Call]:
    tree = ast.parse((SOURCE / "storage" / file).read_text())
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "LanceDataset.commit"
    ]


def test_the_commit_in_a_compaction_is_outside_of_the_history():
    (call,) = calls_of_commit("compaction.py")
    assert {k.arg: ast.unparse(k.value) for k in call.keywords}["detached"] == "True"


def test_the_schema_is_drafted_in_memory():
    tree = ast.parse((SOURCE / "storage/columns.py").read_text())
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lance.write_dataset"
    ]
    assert ast.unparse(call.args[1]).startswith("f'memory://")


def test_a_table_is_created_and_never_overwritten():
    for file in ("tables.py", "ledger.py"):
        tree = ast.parse((SOURCE / "storage" / file).read_text())
        modes = [
            ast.unparse(keyword.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "lance.write_dataset"
            for keyword in node.keywords
            if keyword.arg == "mode"
        ]
        assert modes == ["'create'"]


@pytest.mark.parametrize(
    "text",
    [
        "import lance",
        "import lance.fragment as f",
        "from lance import LanceDataset",
        "from lance.dataset import X",
        "def f():\n    import lance",
        "__import__('lance')",
        "importlib.import_module('lance.optimize')",
    ],
)
def test_the_check_finds_imports(text):
    assert list(imports_of_lance(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["import lancelot", "from omnigraph.storage import tables", "x = 'lance'"]
)
def test_the_check_finds_no_other_imports(text):
    assert not list(imports_of_lance(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "lance.write_dataset(rows, uri)",
        "write_dataset(rows, uri)",
        "dataset.merge_insert('id').when_matched_update_all().execute(rows)",
        "dataset.delete('true')",
        "dataset.update({'a': '1'})",
        "dataset.insert(rows)",
        "dataset.create_index('a', 'BTREE')",
        "dataset.create_scalar_index('a', 'BTREE')",
        "dataset.optimize.compact_files()",
        "dataset.optimize.optimize_indices()",
        "dataset.add_columns(schema)",
        "dataset.restore()",
        "LanceDataset.commit(dataset, operation)",
        "work = dataset.delete\nwork('true')",
        "getattr(dataset, 'del' + 'ete')('true')",
    ],
)
def test_the_check_finds_committing_calls(text):
    assert list(
        committing_calls(
            ast.parse(f"class A:\n  def f(self):\n    {text.replace(chr(10), chr(10) + '    ')}")
        )
    )
