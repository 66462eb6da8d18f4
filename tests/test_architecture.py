"""The layering holds, and the check would notice if it did not."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = "from importlinter.cli import lint_imports_command as command; command()"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


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


@pytest.mark.parametrize(
    "module,text",
    [
        ("language/_bad.py", "import omnigraph.storage\n"),
        ("language/_bad.py", "import omnigraph.settings\n"),
        ("language/_bad.py", "import lance\n"),
        ("language/_bad.py", "def f():\n    import pyspark\n"),
        ("errors.py", "from omnigraph.language import lint\n"),
        ("storage/_bad.py", "import omnigraph.history\n"),
        ("history/_bad.py", "import omnigraph.writes\n"),
        ("query/_bad.py", "import lance\n"),
        ("writes/_bad.py", "import omnigraph.cli\n"),
        ("query/_bad.py", "import pyspark\n"),
        ("storage/_bad.py", "import omnigraph.embedding\n"),
        ("embedding/_bad.py", "import omnigraph.storage\n"),
        ("embedding/_bad.py", "from omnigraph.language import types\n"),
    ],
    ids=lambda v: v.split()[-1] if v.endswith("\n") else v.removesuffix(".py"),
)
def test_an_import_upwards_is_found(copy, module, text):
    for package in ("storage", "history", "writes"):
        if not (copy / "src" / "omnigraph" / package).exists():
            add(copy, f"{package}/__init__.py", '"""For the test."""\n')
    add(copy, module, text)
    ran = lint_imports(copy)
    assert ran.returncode == 1
    assert "BROKEN" in ran.stdout


def test_storage_may_import_lance_and_the_pipeline_spark(copy):
    add(copy, "storage/_good.py", "import lance\nimport lance.fragment\n")
    add(copy, "pipeline/_good.py", "import pyspark.sql\nimport omnigraph.storage._good\n")
    ran = lint_imports(copy)
    assert ran.returncode == 0, ran.stdout + ran.stderr


#: What runs code that stands in the bytes it reads.
RUN_WHAT_THEY_READ = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
#: Sends functions between the driver and the workers of Spark, and reads no files.
SENDS_CODE = "pipeline/spark/engine.py"


def modules_that_unpickle(package: Path) -> set[str]:
    """The modules that import something which could run code from a file."""
    found = set()
    for path in package.rglob("*.py"):
        names: list[str] = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names += [node.module or "", *(alias.name for alias in node.names)]
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                names.append("pickle")
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names += [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
        if any(part in RUN_WHAT_THEY_READ for name in names for part in name.split(".")):
            found.add(path.relative_to(package).as_posix())
    return found


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
