"""The layering holds, and the check would notice if it did not."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = "from importlinter.cli import lint_imports_command as command; command()"


def copy_to(directory: Path) -> Path:
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", directory / "src", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", directory)
    return directory


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    return copy_to(tmp_path)


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "src")},
        capture_output=True,
        text=True,
    )


def add(directory: Path, module: str, text: str) -> None:
    path = directory / "src" / "omnigraph" / module
    path.parent.mkdir(exist_ok=True)
    if path.name != "__init__.py" and not (path.parent / "__init__.py").exists():
        (path.parent / "__init__.py").write_text('"""For the test."""\n')
    path.write_text(text)


def test_the_layering_holds(copy):
    ran = lint_imports(copy)
    assert ran.returncode == 0, ran.stdout + ran.stderr


#: Modules that break the layering, and the import that the check has to name.
UPWARDS = {
    "language/_bad_storage.py": ("import omnigraph.storage\n", "omnigraph.storage"),
    "language/_bad_settings.py": ("import omnigraph.settings\n", "omnigraph.settings"),
    "language/_bad_lance.py": ("import lance\n", "lance"),
    "language/_bad_spark.py": ("def f():\n    import pyspark\n", "pyspark"),
    "errors.py": ("from omnigraph.language import lint\n", "omnigraph.language"),
    "storage/_bad_history.py": ("import omnigraph.history\n", "omnigraph.history"),
    "history/_bad_writes.py": ("import omnigraph.writes\n", "omnigraph.writes"),
    "query/_bad_lance.py": ("import lance\n", "lance"),
    "writes/_bad_cli.py": ("import omnigraph.cli\n", "omnigraph.cli"),
    "query/_bad_spark.py": ("import pyspark\n", "pyspark"),
    "storage/_bad_embedding.py": ("import omnigraph.embedding\n", "omnigraph.embedding"),
    "embedding/_bad_storage.py": ("import omnigraph.storage\n", "omnigraph.storage"),
    "embedding/_bad_types.py": (
        "from omnigraph.language import types\n",
        "omnigraph.language.types",
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What the check says about a package with all of them: it takes long to look at one."""
    directory = copy_to(tmp_path_factory.mktemp("upwards"))
    for module, (text, _) in UPWARDS.items():
        add(directory, module, text)
    return lint_imports(directory)


@pytest.mark.parametrize("module", UPWARDS)
def test_an_import_upwards_is_found(report, module):
    assert report.returncode == 1
    importer = module.removesuffix(".py").replace("/", ".")
    assert f"omnigraph.{importer} -> {UPWARDS[module][1]} (l." in report.stdout


def test_storage_may_import_lance_and_the_pipeline_spark(copy):
    add(copy, "storage/_good.py", "import lance\nimport lance.fragment\n")
    add(copy, "pipeline/_good.py", "import pyspark.sql\nimport omnigraph.storage._good\n")
    ran = lint_imports(copy)
    assert ran.returncode == 0, ran.stdout + ran.stderr


#: What runs code that stands in the bytes it reads.
RUN_WHAT_THEY_READ = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
#: Sends functions between the driver and the workers of Spark, and reads no files.
SENDS_CODE = "pipeline/spark/engine.py"


@cache
def unpickles(text: str) -> bool:
    """True for a module that imports something which could run code from a file."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            names.append("pickle")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names += [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return any(part in RUN_WHAT_THEY_READ for name in names for part in name.split("."))


def modules_that_unpickle(package: Path) -> set[str]:
    """The modules of a package that could run code from a file."""
    modules = {p.relative_to(package).as_posix(): p.read_text() for p in package.rglob("*.py")}
    return {path for path, text in modules.items() if unpickles(text)}


def test_nothing_but_spark_tasks_is_unpickled():
    assert modules_that_unpickle(ROOT / "src" / "omnigraph") == {SENDS_CODE}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\n",
        "def f():\n    from pickle import loads\n",
        "from pyspark import cloudpickle\n",
        "import numpy\n\nnumpy.load('file', allow_pickle=True)\n",
        "import importlib\n\nimportlib.import_module('marshal')\n",
    ],
)
def test_a_module_that_unpickles_is_found(copy, text):
    add(copy, "storage/_bad.py", text)
    found = modules_that_unpickle(copy / "src" / "omnigraph")
    assert found == {SENDS_CODE, "storage/_bad.py"}
