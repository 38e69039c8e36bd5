"""Decorators for numba kernels: entry points are cached on disk, helpers are not.

Two properties of numba's cache make this necessary.

* A function that was loaded from the cache is machine code without an intermediate form. A caller
  that is compiled later can neither inline it nor drop its reference counting: measured, five
  times slower, and the slow code is then cached itself. Hence only what Python calls is cached
  (`kernel`); what kernels call is compiled into them (`helper`).
* A cache entry is renewed when the kernel's own file changes, not when a helper's file does, and
  files unpacked from wheels keep their dates. Hence the stamp covers every source file of the
  kernel's folder; kernels use helpers of their own folder, or of none.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core import event

from optim import compilation

if TYPE_CHECKING:
    from collections.abc import Callable

_njit: Any = numba.njit


class _Teller(event.Listener):
    """Passes numba's own event on; it does not fire for what is loaded from the cache."""

    def on_start(self, event: object) -> None:
        compilation.tell()

    def on_end(self, event: object) -> None:
        pass


event.register("numba:compile", _Teller())

helper = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For functions that only other compiled functions call: no way in from Python or C is compiled."""

inlined = _njit(inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For tiny helpers in hot loops: a call that is not inlined counts references to every array."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; the machine code is kept on disk where possible."""
    try:
        compiled = _njit(cache=True, no_cfunc_wrapper=True)(function)
    except RuntimeError:  # no folder that may be written
        return _njit(function)
    stored = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if stored is not None:
        stored._source_stamp = _stamp(str(Path(function.__code__.co_filename).parent))
    return compiled


@cache
def _stamp(folder: str) -> str:
    """Hash of the Python files in a folder; of the package's version where it is a zip."""
    digest = hashlib.sha256(sys.version.encode())
    files = sorted(Path(folder).glob("*.py"))
    for file in files:
        digest.update(file.read_bytes())
    if not files:
        from importlib.metadata import version

        digest.update(version("streamplace").encode())
    return digest.hexdigest()
