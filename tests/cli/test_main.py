"""The command line as a whole: help, exit codes, errors, start-up."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph import cli as module
from omnigraph.cli import VERBS, cli, main
from omnigraph.errors import KeyConflict, OmnigraphError, PreconditionFailed, UsageError, Violation
from tests.patience import PATIENCE

HEAVY = {"pyspark", "lance", "pyarrow", "numpy", "pandas", "rich"}


def commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


ALL = list(commands())


@pytest.mark.parametrize("path", [p for p, _ in ALL], ids=" ".join)
def test_every_verb_has_help_with_an_example(run, path):
    ran = run(*path, "--help")
    assert ran.code == 0
    assert re.search(r"Examples?:\n +(source <\()?omnigraph ", ran.out)
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("path,command", ALL, ids=[" ".join(p) for p, _ in ALL])
def test_every_verb_takes_json_and_debug(path, command):
    if not isinstance(command, click.Group):
        options = {o for p in command.params for o in p.opts}
        assert {"--json", "--debug"} <= options


@pytest.mark.parametrize("name", VERBS)
def test_the_lazy_table_has_the_short_help_of_the_command(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == VERBS[name][1]


def test_help_imports_nothing_heavy_and_no_verb():
    code = (
        "import sys; from omnigraph.cli import main; code = main(['--help']);"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, *modules = ran.stderr.split()
    assert exit_code == "0"
    assert not HEAVY & {m.partition(".")[0] for m in modules}
    assert not {m for m in modules if m.startswith("omnigraph.language")}
    assert not {place.partition(":")[0] for place, _ in VERBS.values()} & set(modules)
    # Python itself imports 30 to 60; each hundred more takes a tenth of a second.
    assert len(modules) < 200


def test_lint_imports_nothing_heavy(files):
    code = (
        "import sys; from omnigraph.cli import main; code = main(['lint', 'schema.pg']);"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=files
    )
    assert not HEAVY & {m.partition(".")[0] for m in ran.stderr.split()}


def test_version_option_and_verb(run):
    assert run("--version").out == f"omnigraph {omnigraph.__version__}\n"
    assert run("version").out.splitlines()[0].split() == ["omnigraph", omnigraph.__version__]
    assert run("version", "--json").json["omnigraph"] == omnigraph.__version__


def test_python_runs_the_package_as_the_command_line():
    command = [sys.executable, "-m", "omnigraph", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"omnigraph {omnigraph.__version__}\n"
    assert subprocess.run([*command[:3], "nothing"], capture_output=True).returncode == 2


def test_no_verb_shows_the_help_and_is_a_usage_error(run):
    ran = run()
    assert ran.code == 2
    assert ran.out == ""
    assert "Commands:" in ran.err


def test_a_misspelt_verb_is_a_usage_error_with_a_hint(run):
    ran = run("explian")
    assert ran.code == 2
    assert ran.out == ""
    assert "error: unknown command `explian`; did you mean `explain`?" in ran.err


def test_a_misspelt_option_is_a_usage_error_with_usage(run):
    ran = run("lint", "--strit")
    assert ran.code == 2
    assert "--strict" in ran.err
    assert "Try 'omnigraph lint --help' for help." in ran.err


def test_json_errors_are_one_object_on_stdout(run):
    ran = run("lint", "--json", "missing.pg")
    assert ran.code == 1
    assert ran.err == ""
    assert ran.json == {
        "error": "NotFound",
        "code": "not_found",
        "message": "missing.pg: no such file",
    }


def test_json_usage_errors_are_json_too(run):
    ran = run("lint", "--json", "--strit")
    assert ran.code == 2
    assert ran.json["error"] == "UsageError"


@pytest.mark.parametrize(
    "error,code",
    [
        (OmnigraphError("no"), 1),
        (UsageError("no"), 2),
        (KeyConflict([Violation("T", "a", "id", "a", "exists", "no")]), 3),
        (PreconditionFailed("no", expected="a", actual="b"), 4),
        (RuntimeError("no"), 1),
        (OSError(28, "No space left on device"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseException) else str(v),
)
def test_errors_become_exit_codes_without_a_traceback(run, monkeypatch, error, code):
    def fail(_context: click.Context) -> None:
        raise error

    monkeypatch.setattr(cli, "invoke", fail)
    ran = run("version")
    assert ran.code == code
    assert "Traceback" not in ran.err + ran.out


def test_debug_shows_the_traceback(run, monkeypatch):
    assert "Traceback" in run("lint", "--debug", "missing.pg").err
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "1")
    assert "Traceback" in run("lint", "missing.pg").err
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "0")
    assert "Traceback" not in run("lint", "missing.pg").err


def test_an_unexpected_error_says_so(run, monkeypatch):
    def fail(_context: click.Context) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(cli, "invoke", fail)
    ran = run("version")
    assert "internal error: RuntimeError: boom" in ran.err
    assert "--debug" in ran.err


def test_a_bad_setting_is_a_usage_error(run, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "maybe")
    ran = run("version")
    assert ran.code == 2
    assert "OMNIGRAPH_DEBUG='maybe'" in ran.err


def test_a_closed_pipe_is_quiet(files):
    python = shlex.quote(sys.executable)
    script = f"{python} -m omnigraph.cli schema show --schema schema.pg --json | true"
    for _ in range(3):
        ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=files)
        assert ran.stderr == ""


def test_ctrl_c_is_quiet(files):
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli", "fmt", "--type", "pg", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    # More than fits into the pipe: this comes back when the command reads its input.
    process.stdin.write("// a comment\n" * 50_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == ""


def test_output_to_a_pipe_has_no_colours(run, files):
    (files / "bad.pg").write_text("node Person { name: Strin }")
    assert "\x1b" not in run("lint", "bad.pg").out


def test_output_to_a_terminal_has_colours_unless_no_color(files):
    (files / "bad.pg").write_text("node Person { name: Strin }")
    assert "\x1b[" in _on_a_terminal(["lint", "bad.pg"], files)
    assert "\x1b[" not in _on_a_terminal(["lint", "bad.pg"], files, NO_COLOR="1")
    assert "\x1b[" in _on_a_terminal(["schema", "show", "--schema", "schema.pg"], files)
    plain = _on_a_terminal(["schema", "show", "--schema", "schema.pg"], files, NO_COLOR="1")
    assert "\x1b[" not in plain


def _on_a_terminal(arguments: list[str], directory: Path, **environ: str) -> str:
    """Run a command with its output on a pseudo-terminal; give what the terminal received."""
    import pty

    main_end, other_end = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80", **environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=other_end,
        stderr=other_end,
        cwd=directory,
        env=environment,
    )
    os.close(other_end)
    received = b""
    with open(main_end, "rb", buffering=0) as terminal:
        while True:
            try:
                chunk = terminal.read(65536)
            except OSError:  # Linux: the other end was closed
                break
            if not chunk:
                break
            received += chunk
    process.wait(timeout=PATIENCE)
    return received.decode()


def test_an_ascii_only_stdout_does_not_crash(files):
    (files / "bad.pg").write_text("node Pérson { näme: String }", encoding="utf-8")
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", "lint", "bad.pg"],
        capture_output=True,
        text=True,
        cwd=files,
        env=environ,
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "bad.pg:1:7: error" in ran.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run, shell):
    ran = run("completion", shell)
    assert ran.code == 0
    assert "_OMNIGRAPH_COMPLETE" in ran.out
    assert run("completion", shell, "--json").json["shell"] == shell


def test_completion_completes_verbs():
    environ = {
        **os.environ,
        "_OMNIGRAPH_COMPLETE": "bash_complete",
        "COMP_WORDS": "omnigraph sch",
        "COMP_CWORD": "1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", "from omnigraph.cli import main; main()"],
        capture_output=True,
        text=True,
        env=environ,
    )
    assert ran.stdout == "plain,schema\n"


def test_main_is_the_console_script():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'omnigraph = "omnigraph.cli:main"' in project
    assert main is module.main


def test_json_is_utf8_and_indented(run, files):
    (files / "é.pg").write_text("node")
    ran = run("lint", "é.pg", "--json")
    assert ran.json["diagnostics"][0]["path"] == "é.pg"
    assert json.dumps(ran.json, indent=2, ensure_ascii=False) + "\n" == ran.out
