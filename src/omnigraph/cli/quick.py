"""Keeping pandas out of the command line's process, which starts in half the time without it.

The first array that pyarrow makes looks whether pandas is installed by importing it, and so does
the first one that becomes NumPy's. No verb needs pandas. So it is hidden while both is done here,
and pyarrow believes that there is none. Pandas can be imported afterwards as ever, and the moment
it is, pyarrow is informed; only `pandas.NA` it does not know then, which is why this is for the
command line alone. A program that has pyarrow or pandas already is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_arrow_without_pandas() -> None:
    """Import pyarrow and have pandas stay away until somebody asks for it."""
    if "pyarrow" in sys.modules or "pandas" in sys.modules:
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0], pa.date32()).to_numpy(zero_copy_only=False)
    finally:
        finder.hidden = False


class _PandasFinder(MetaPathFinder):
    """Hides pandas at first; afterwards finds it as ever, and informs pyarrow when it is loaded."""

    def __init__(self) -> None:
        self.hidden = True

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find pandas, or say that there is none; everything else is for other finders."""
        if name != "pandas":
            return None
        if self.hidden:
            raise ModuleNotFoundError("pandas is not needed now", name=name)
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_inform(module: ModuleType) -> None:
                load(module)
                self._inform_pyarrow()

            spec.loader.exec_module = load_and_inform  # type: ignore[method-assign]
        return spec

    def _inform_pyarrow(self) -> None:
        import pyarrow.lib

        if self in sys.meta_path:
            sys.meta_path.remove(self)
        # Asking for it makes pyarrow look again; nothing else does.
        pyarrow.lib._pandas_api.pd  # noqa: B018
