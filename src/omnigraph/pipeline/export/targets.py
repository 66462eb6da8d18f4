"""Where an export goes: one file of JSON lines, or a folder with files for each type.

Nothing is at the target's name until all of it is there. Until then the files are in a hidden
folder beside it, which is removed when something goes wrong; only a process that is killed leaves
it behind.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import AlreadyExists, OmnigraphError, UsageError
from omnigraph.pipeline.export.bucket import BucketTarget
from omnigraph.pipeline.export.parts import Compression, Format
from omnigraph.storage.buckets import is_in_bucket
from omnigraph.storage.location import Location

#: The ends of names that stand for one file of JSON lines.
_SINGLE: dict[str, Compression | None] = {
    ".jsonl": None,
    ".jsonl.gz": "gzip",
    ".jsonl.zst": "zstd",
}
#: Ends of names that are surely meant to be a file.
_FILES = (".json", ".ndjson", ".csv", ".parquet", ".txt", ".gz", ".zst", ".zip", *_SINGLE)
_WRITTEN = (".jsonl", ".csv", ".parquet")
_COPIED = 4 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file or folder to be made.

    Attributes:
        label: What the user calls it.
        path: Where it is, without symbolic links.
        single: True for one file, False for a folder.
        compression: How the file is compressed.
        overwrite: True when it may take the place of what is there.
    """

    label: str
    path: Path
    single: bool
    compression: Compression | None
    overwrite: bool

    @staticmethod
    def of(place: str | os.PathLike[str], format: Format, overwrite: bool) -> Target | BucketTarget:
        """Read a target from what a user gives, and check that it can be made.

        Raises:
            UsageError: It makes no sense with the format, or is neither here nor in a bucket.
            AlreadyExists: There is something already.
        """
        label = os.fspath(place)
        if not isinstance(label, str) or not label:
            raise UsageError("the target is empty; name a .jsonl file or a folder")
        in_bucket = is_in_bucket(label)
        if "://" in label and not in_bucket:
            raise UsageError(
                f"cannot export to {label}: exports go to files on this machine, or to s3://"
            )
        ending = "" if label.endswith(("/", os.sep)) else _ending(label)
        single = ending in _SINGLE and format == "jsonl"
        if ending and not single:
            hint = f"{_FORMAT_NAMES[format]} goes to a folder, with files for each type"
            if format == "jsonl":
                hint = f"a file of JSON lines ends in {_listed(_SINGLE)}; else name a folder"
            raise UsageError(f"cannot export to {label}: {hint}")
        compression = _SINGLE[ending] if single else None
        if in_bucket:
            return BucketTarget.of(label, single, compression, overwrite, _WRITTEN, _FORCE)
        target = Target(label, _real(label), single, compression, overwrite)
        target.check()
        return target

    def is_inside(self, location: Location) -> bool:
        """True for a target that is part of a graph."""
        return location.is_local and self.path.is_relative_to(Path(location.uri))

    def file(self, name: str) -> str:
        """The path of a file of the target."""
        return str(Path(self.label, name))

    def check(self) -> None:
        """Check that nothing is in the way.

        Raises:
            AlreadyExists: Something is.
            UsageError: It cannot be made, whatever is there.
        """
        if not self.path.parent.is_dir():
            raise UsageError(f"cannot export to {self.label}: {self.path.parent} is no folder")
        if self.single:
            self._check_file()
        elif os.path.lexists(self.path):
            self._check_folder()

    def _check_file(self) -> None:
        if self.path.is_dir():
            raise UsageError(f"{self.label} is a folder; name a file in it")
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"{self.label} is no regular file")
        if self.path.exists() and not self.overwrite:
            raise AlreadyExists(f"{self.label} is there already; overwrite it with {_FORCE}")

    def _check_folder(self) -> None:
        if not self.path.is_dir():
            raise UsageError(
                f"{self.label} is a file; name a folder, or a file that ends in {_listed(_SINGLE)}"
            )
        if self.path == Path.cwd():
            raise UsageError(f"{self.label} is the current folder; name a new folder in it")
        present = sorted(os.listdir(self.path))
        foreign = [name for name in present if not self._is_written(name)]
        if foreign:
            raise AlreadyExists(
                f"the folder {self.label} has other files ({', '.join(foreign[:3])}); name a new or"
                " empty folder"
            )
        if present and not self.overwrite:
            raise AlreadyExists(f"the folder {self.label} is not empty; overwrite it with {_FORCE}")

    def _is_written(self, name: str) -> bool:
        """True for a file that an export may have made."""
        return name.endswith(_WRITTEN) and (self.path / name).is_file()

    @contextmanager
    def draft(self) -> Iterator[str]:
        """Make the hidden folder for the files; it is gone afterwards."""
        folder = self.path.with_name(f".{self.path.name}.omnigraph-{secrets.token_hex(8)}")
        try:
            folder.mkdir()
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish_file(self, parts: Sequence[str], draft: str) -> None:
        """Put parts together, in their order, and give the file its name."""
        self.check()
        whole = Path(parts[0] if parts else f"{draft}/whole")
        try:
            with open(whole, "ab") as file:
                for part in parts[1:]:
                    with open(part, "rb") as source:
                        shutil.copyfileobj(source, file, _COPIED)
                    os.unlink(part)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                os.chmod(whole, stat.S_IMODE(self.path.stat().st_mode))
            os.replace(whole, self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def publish_folder(self, parts: Sequence[tuple[str, str]], draft: str) -> None:
        """Name the parts (pairs of path and name), and give their folder its name."""
        self.check()
        # Beside the parts that count there are others when a task has run more than once.
        whole, old = Path(draft, "whole"), Path(draft, "old")
        try:
            whole.mkdir()
            for path, name in parts:
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                os.rename(path, whole / name)
            if not self.path.exists():
                os.rename(whole, self.path)
                return
            os.chmod(whole, stat.S_IMODE(self.path.stat().st_mode))
            os.rename(self.path, old)
            try:
                os.rename(whole, self.path)
            except BaseException:
                os.rename(old, self.path)
                raise
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> OmnigraphError:
        return OmnigraphError(f"{self.label}: cannot be written: {error.strerror}", code="os_error")


_FORMAT_NAMES = {"jsonl": "JSON", "parquet": "Parquet", "csv": "CSV"}
_FORCE = "overwrite=True (--force)"


def _ending(label: str) -> str:
    """The end of a name that tells it is a file's; empty when it is a folder's."""
    name = os.path.basename(label).lower()
    fitting = [end for end in _FILES if name.endswith(end)]
    return max(fitting, key=len, default="")


def _real(label: str) -> Path:
    return Path(os.path.realpath(os.path.expanduser(label)))


def _listed(words: Sequence[str] | dict[str, Compression | None]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"
