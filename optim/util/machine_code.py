"""What numba makes of kernels: entry points are cached on disk, helpers are not.

Four properties of numba's cache make this necessary.

* A function that was loaded from the cache is machine code without an intermediate form. A caller
  that is compiled later can neither inline it nor drop its reference counting: measured, five
  times slower, and the slow code is then cached itself. Hence only what Python calls is cached
  (`kernel`); what kernels call is compiled into them (`helper`).
* A cache entry is renewed when the kernel's own file changes, not when a helper's file does, and
  files unpacked from wheels keep their dates. Hence the stamp is of the code of the kernel and of
  all it calls (`_stamp`), so that kernels may share code, and no source is read for it.
* Processes that start together (the workers of a sweep) would all compile the same. Hence each
  kernel is compiled by one, and the others wait for it (`Lock`).
* A truncated file ends the program, and what an image brought along is not found by users who may
  not write there. Hence the files of a kernel are read by `_Kept`.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.util import progress
from optim.util.process import Held
from optim.util.store import Lock

with Held():  # half of numba could not be imported again, nor the other half
    import numba
    from numba.core import event
    from numba.core.caching import IndexDataCacheFile
    from numba.core.types import BaseTuple, unliteral
    from numba.np import linalg

    # numba loads scipy.linalg (0.15 s) to see whether it is there: it is, and `dot` looks again
    _look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = _look
    arraymath.ensure_blas = _look

if TYPE_CHECKING:
    from collections.abc import Callable

_njit: Any = numba.njit
_LONGEST_WAIT = 120.0
"""Seconds for a process that compiles, which may be stopped; then each compiles by itself."""


class _Teller(event.Listener):
    """Passes numba's own event on; it does not fire for what is loaded from the cache."""

    def on_start(self, event: Any) -> None:
        progress.begin()

    def on_end(self, event: Any) -> None:
        """Let another process compile what was interrupted; what is done is saved first."""
        progress.end()
        dispatcher = event.data["dispatcher"]
        files = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
        if isinstance(files, _Kept) and tuple(event.data["args"]) not in dispatcher.overloads:
            files.give_up()


event.register("numba:compile", _Teller())


_twins: dict[Any, Any] = {}
_globals: dict[int, dict[str, Any]] = {}


def kind_of(value: Any) -> str | None:
    """Say whether a value is a ``kernel``, a ``helper``, ``inlined``, or no part of a kernel."""
    part = getattr(value, "part", None)
    return part if isinstance(part, str) else None


def twin(value: Any) -> Any:
    """Return what compiled code calls in place of a helper or kernel; anything else as it is."""
    kind = kind_of(value)
    if kind is None:
        return value
    if kind == "kernel":
        return value.compiled
    if value not in _twins:
        copy = _for_numba(value)
        _twins[value] = _inlined(copy) if kind == "inlined" else _helper(copy)
        _fill(value, copy)
    return _twins[value]


def _for_numba(function: Any) -> Any:
    """Return a copy of a function, whose names are to lead to twins (`_fill`)."""
    # one copy of a module's names for all its functions, so that twins see each other
    names = _globals.setdefault(id(function.__globals__), dict(function.__globals__))
    closure = tuple(CellType(cell.cell_contents) for cell in function.__closure__ or ())
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, closure or None
    )
    copy.__qualname__, copy.__kwdefaults__ = function.__qualname__, function.__kwdefaults__
    return copy


def _fill(function: Any, copy: Any) -> None:
    """Put twins where a function's copy finds helpers and kernels; later, as they may go round."""
    for name in function.__code__.co_names:
        if name in function.__globals__:
            copy.__globals__[name] = twin(function.__globals__[name])
    for cell in copy.__closure__ or ():
        cell.cell_contents = twin(cell.cell_contents)


def _helper(function: Callable[..., Any]) -> Any:
    """Compile what only other compiled functions call: no way in from Python or C.

    Constants among the arguments count as numbers: to numba the `-1` of "no task" is a type of its
    own, and a function with four such arguments was compiled seven times.
    """
    compiled = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    template = compiled.get_call_template

    def of_any_value(args: Any, kws: Any) -> Any:
        return template(
            tuple(unliteral(a) for a in args), {name: unliteral(a) for name, a in kws.items()}
        )

    compiled.get_call_template = of_any_value
    return compiled


_inlined = _njit(inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def dispatcher_of(function: Callable[..., Any]) -> Any:
    """Return a kernel's twin, which is compiled on its first call or read from the disk."""
    copy = _for_numba(function)
    compiled = _entry(copy, _stamp(function))
    _fill(function, copy)
    return compiled


def _entry(function: Any, stamp: str) -> Any:
    try:
        compiled = _njit(cache=True, no_cfunc_wrapper=True)(function)
    except RuntimeError:  # no folder that may be written
        progress.lose()
        try:
            _own_folder()
            compiled = _njit(cache=True, no_cfunc_wrapper=True)(function)
        except (OSError, RuntimeError):
            return _njit(function)
    cache = getattr(compiled, "_cache", None)
    if cache is not None:
        cache.load_overload = _whole(cache.load_overload)
        base = cache._impl.filename_base
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        shipped = None
        if str(beside) != cache.cache_path:
            shipped = _Kept(str(beside), base, stamp)
        cache._cache_file = _Kept(cache.cache_path, base, stamp, shipped)
    return compiled


def _whole(load: Callable[..., Any]) -> Callable[..., Any]:
    """Let nothing interrupt numba's first look at what it can do: it would never end that look."""

    def loaded(signature: Any, context: Any) -> Any:
        with Held():
            context.refresh()
        return load(signature, context)

    return loaded


class _Kept(IndexDataCacheFile):
    """Files of one kernel: damaged ones count as missing, and disks may be full.

    `shipped`: where else to look: beside the module, which may not be written by those who run it.
    """

    def __init__(self, path: str, base: str, stamp: str, shipped: _Kept | None = None) -> None:
        super().__init__(cache_path=path, filename_base=base, source_stamp=stamp)
        self._shipped = shipped
        self._lock = Lock(Path(path) / f"{base}.lock")

    def load(self, key: Any) -> Any:
        overload = self._read(key)
        if overload is not None:
            return overload
        with progress.waiting():
            waited = self._wait()
        if waited:  # meanwhile another process may have compiled it
            overload = self._read(key)
            if overload is not None:
                self._lock.release()
        return overload

    def _wait(self) -> bool:
        """Take the kernel's lock; True where another process had it, which may have compiled."""
        with contextlib.suppress(OSError):  # a folder that may not be written: all compile
            if not self._lock.acquire():
                self._lock.acquire(_LONGEST_WAIT)
                return True
        return False

    def _read(self, key: Any) -> Any:
        with contextlib.suppress(Exception):  # a torn pickle raises anything
            # a named tuple with another field of the same number would otherwise load old code
            overload = super().load((*key, _fields_of(key[0])))
            if overload is not None:
                return overload
        return None if self._shipped is None else self._shipped._read(key)

    def save(self, key: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save((*key, _fields_of(key[0])), data)
        self._lock.release()

    def give_up(self) -> None:
        """Let another process compile."""
        self._lock.release()

    def _load_index(self) -> Any:
        with contextlib.suppress(Exception):
            return super()._load_index()
        return {}


def _fields_of(types: Any) -> tuple[Any, ...]:
    """Names in the named tuples of a signature: to numba only their class is part of it."""
    tuples = [kind for kind in types if isinstance(kind, BaseTuple)]
    return tuple((getattr(kind, "fields", ()), _fields_of(kind)) for kind in tuples)


@cache
def _own_folder() -> None:
    """Let numba write where this process alone does; what was shipped is still read."""
    folder = tempfile.mkdtemp(prefix="streamplace-kernels-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not in a forked process
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    numba.config.CACHE_DIR = folder  # type: ignore[attr-defined]


def _stamp(kernel: Any) -> str:
    """Hash of the code of a kernel and of all that it calls, and of the constants they name."""
    digest = hashlib.sha256(sys.version.encode())
    seen: set[Any] = set()
    waiting: list[Any] = [kernel]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        named = {*function.__code__.co_names} & function.__globals__.keys()
        values = {name: function.__globals__[name] for name in named}
        for cell, name in zip(
            function.__closure__ or (), function.__code__.co_freevars, strict=True
        ):
            values[name] = cell.cell_contents
        parts = [_text(function.__code__), _text(function.__defaults__)]
        for name in sorted(values):
            value = values[name]
            kind = kind_of(value)
            if kind is not None:
                waiting.append(value.function if kind == "kernel" else value)
                parts.append(f"{name}: {kind} {value.__module__}.{value.__qualname__}")
            else:
                parts.append(f"{name}: {_text(value)}")
        digest.update("\n".join(parts).encode())
    return digest.hexdigest()


def _text(value: Any) -> str:
    """Write a value of the few kinds that kernels name, the same in every process."""
    if isinstance(value, CodeType):
        parts = (value.co_varnames, value.co_names, value.co_freevars, *map(_text, value.co_consts))
        return f"{value.co_code.hex()} {parts}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return f"{type(value).__name__} {value!r}"
    raise TypeError(f"kernels name no {type(value).__name__}, which has no stamp: {value!r}")
