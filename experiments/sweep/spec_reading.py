"""Read the tables of a sweep file one by one; everything that is wrong is told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.sweep.methods import MethodEntry, read_entries
from experiments.sweep.spec import OPTION_PREFIX, SETTINGS, Generate, Settings, Spec
from experiments.sweep.variations import KINDS, LIMITS, Variation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from experiments.sweep.checking import Checker

MIN_MEMORY = 64 << 20

_NOT_OF_METHODS = ("solver", "seed", "threads")  # solvers are a list there
_TOP = ("name", "description", "instances", "matrix", "vary")
_IMPLIED = {"load_share": "load_share", "scale_capacity": "scale_capacity"}


class SpecReader:
    """Reads the tables of a sweep one by one; problems go to the checker."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.readers: dict[str, Callable[[Any, str], Any]] = {
            "solver": self._name,
            "seed": lambda v, p: checker.whole(v, p, 0, 2**31 - 1),
            "time_limit": lambda v, p: checker.number(v, p, above=0),
            "gap": lambda v, p: checker.number(v, p, least=0),
            "threads": lambda v, p: checker.whole(v, p, 1, 1024),
            "warm_start": self._name,
            "repair": checker.boolean,
            "ignore": self._limits,
            "run_timeout": lambda v, p: checker.number(v, p, above=0),
            "memory_limit": lambda v, p: checker.size(v, p, MIN_MEMORY),
        }

    def read(self, document: Any, base: Path, source: str) -> Spec:
        """Read the whole file."""
        check = self.checker
        top = check.table(document, "$") or {}
        check.keys(top, "", (*_TOP, *SETTINGS))
        if "name" not in top:
            check.add("name", None, "is missing", 'add name = "…"')
        name = check.text(top["name"], "name") if "name" in top else None
        given = {k: self.readers[k](top[k], k) for k in SETTINGS if k in top}
        files, generators = self._instances(top.get("instances"))
        vary = self._vary(top.get("vary", {}))
        matrix = check.table(top.get("matrix", {}), "matrix") or {}
        entries = {k: matrix.get(k, []) for k in ("exclude", "include")}
        factors = self._factors({k: v for k, v in matrix.items() if k not in entries}, vary)
        for unused in vary.keys() - factors.keys():
            reason = "is varied by no factor of the matrix"
            check.add(f"vary.{unused}", None, reason, f"add matrix.{unused} = […]")
        if "method" not in factors and not entries["include"]:
            check.add("matrix.method", None, "is missing", 'add method = ["…"]')
        return Spec(
            name=name or "",
            description=str(top.get("description", "")),
            files=files,
            generators=generators,
            defaults=Settings(**{k: v for k, v in given.items() if v is not None}),
            factors=factors,
            variations=vary,
            exclude=self._entries(entries["exclude"], "exclude", factors, vary),
            include=self._entries(entries["include"], "include", factors, vary),
            base=base,
            source=source,
            document=top,
        )

    # -- single values ---------------------------------------------------------------------------

    def _name(self, value: Any, path: str) -> str | None:
        """Take a name; ``none`` says that there shall be none, since TOML has no null."""
        text = self.checker.text(value, path)
        return None if text == "none" else text

    def _limits(self, value: Any, path: str) -> tuple[str, ...]:
        from optim.instance import LIMIT_NAMES

        if not isinstance(value, list):
            self.checker.add(path, value, "must be a list of limits")
            return ()
        for i, name in enumerate(value):
            if name not in LIMIT_NAMES:
                known = f"limits: {', '.join(LIMIT_NAMES)}"
                self.checker.add(f"{path}[{i}]", name, "is no limit", known)
        return tuple(map(str, value))

    # -- tables ----------------------------------------------------------------------------------

    def _instances(self, value: Any) -> tuple[tuple[str, ...], tuple[Generate, ...]]:
        check = self.checker
        remedy = 'add files = ["…/*.json"] or [[instances.generate]]'
        if value is None:
            check.add("instances", None, "is missing, so there is nothing to run", remedy)
            return (), ()
        table = check.table(value, "instances") or {}
        check.keys(table, "instances", ("files", "generate"))
        if isinstance(value, dict) and not table.keys() & {"files", "generate"}:
            check.add("instances", None, "names neither files nor generators", remedy)
        files: list[str | None] = []
        if "files" in table:
            items = check.items(table["files"], "instances.files") or []
            files = [check.text(item, f"instances.files[{i}]") for i, item in enumerate(items)]
        generators: list[Generate | None] = []
        if "generate" in table:
            items = check.items(table["generate"], "instances.generate") or []
            generators = [
                self._generate(item, f"instances.generate[{i}]") for i, item in enumerate(items)
            ]
        return tuple(f for f in files if f), tuple(g for g in generators if g)

    def _generate(self, value: Any, path: str) -> Generate | None:
        check = self.checker
        table = check.table(value, path)
        if table is None:
            return None
        if "kind" not in table:
            check.add(f"{path}.kind", None, "is missing")
            return None
        kind = check.text(table["kind"], f"{path}.kind")
        seeds = check.items(table.get("seeds", [0]), f"{path}.seeds") or []
        whole = [check.whole(s, f"{path}.seeds[{i}]", 0, 2**63 - 1) for i, s in enumerate(seeds)]
        parameters = {}
        for key, item in table.items():
            if key not in ("kind", "seeds"):
                many = isinstance(item, list) or (isinstance(item, dict) and "from" in item)
                items = check.items(item, f"{path}.{key}") if many else [item]
                parameters[key] = tuple(check.scalar(i, f"{path}.{key}") for i in items or [])
        return Generate(kind or "", tuple(s for s in whole if s is not None), parameters, path)

    def _vary(self, value: Any) -> dict[str, Variation]:
        check = self.checker
        found = {}
        for name, entry in (check.table(value, "vary") or {}).items():
            path = f"vary.{name}"
            if name in (*SETTINGS, "method", "instance", "option", "exclude", "include"):
                check.add(path, None, "has a name that means something else", "choose another name")
                continue
            table = check.table(entry, path)
            if table is None:
                continue
            check.keys(table, path, ("kind", "resource", "limit"))
            kind = table.get("kind", _IMPLIED.get(name))
            if kind not in KINDS:
                check.add(f"{path}.kind", kind, "is no kind of variation", f"one of {KINDS}")
                continue
            resource = table.get("resource")
            if resource is not None:
                resource = check.text(resource, f"{path}.resource")
            limit = table.get("limit")
            if kind == "limit" and limit not in LIMITS:
                check.add(f"{path}.limit", limit, "is no limit that can vary", f"one of {LIMITS}")
            found[name] = Variation(name, kind, resource, limit)
        return found

    def _factors(
        self, matrix: dict[str, Any], vary: dict[str, Variation]
    ) -> dict[str, tuple[Any, ...]]:
        """Read the lists of the matrix; variations that need no entry in ``vary`` get theirs."""
        check = self.checker
        factors: dict[str, tuple[Any, ...]] = {}
        for name, values in self._flat(matrix, "matrix").items():
            path = f"matrix.{name}"
            if name in _IMPLIED and name not in vary:
                vary[name] = Variation(name, _IMPLIED[name])
            if not self._known(name, path, vary):
                continue
            items = check.items(values, path)
            read: list[Any] = []
            for i, item in enumerate(items or []):
                value = self._value(name, item, f"{path}[{i}]", vary)
                read += value if name == "method" else [value]
            if len({repr(one) for one in read}) < len(read):
                check.add(path, None, "holds a value twice", "keep one")
            factors[name] = tuple(read)
        return factors

    def _flat(self, table: dict[str, Any], path: str) -> dict[str, Any]:
        """Turn the table ``option`` into one factor ``option.NAME`` for each of its entries."""
        flat = {}
        for key, value in table.items():
            if key == "option":
                inner = self.checker.table(value, f"{path}.option") or {}
                flat.update({f"{OPTION_PREFIX}{name}": item for name, item in inner.items()})
            else:
                flat[key] = value
        return flat

    def _known(self, name: str, path: str, vary: Mapping[str, Variation]) -> bool:
        if name == "instance":
            self.checker.add(path, None, "is given by [instances]", "move it there")
            return False
        if name.startswith(OPTION_PREFIX):
            return True
        known = ("method", "option", *SETTINGS, *vary, *_IMPLIED)
        before = len(self.checker.problems)
        self.checker.keys({name: None}, path.removesuffix(f".{name}"), known)
        return len(self.checker.problems) == before

    def _value(self, name: str, value: Any, path: str, vary: Mapping[str, Variation]) -> Any:
        """Read one value of a factor; of ``method`` the list of entries that it means."""
        if name == "method":
            own = {k: v for k, v in self.readers.items() if k not in _NOT_OF_METHODS}
            return read_entries(self.checker, value, path, own)
        if name in self.readers:
            return self.readers[name](value, path)
        if name.startswith(OPTION_PREFIX):
            return self.checker.scalar(value, path)
        if vary[name].kind == "scale_capacity" and isinstance(value, dict):
            return {k: self.checker.number(v, f"{path}.{k}", above=0) for k, v in value.items()}
        if vary[name].kind == "limit":
            return self.checker.number(value, path, least=0)
        return self.checker.number(value, path, above=0)

    def _entries(
        self,
        value: Any,
        kind: str,
        factors: Mapping[str, tuple[Any, ...]],
        vary: Mapping[str, Variation],
    ) -> tuple[Mapping[str, Any], ...]:
        """Read ``[[matrix.exclude]]`` or ``[[matrix.include]]``."""
        check = self.checker
        path = f"matrix.{kind}"
        if not isinstance(value, list):
            check.add(path, value, "must be a list of tables", f"write [[{path}]]")
            return ()
        found = []
        for i, item in enumerate(value):
            here = f"{path}[{i}]"
            table = self._flat(check.table(item, here) or {}, here)
            if not table:
                check.add(here, None, "is empty", "name at least one factor")
            entry = {}
            for name, one in table.items():
                at = f"{here}.{name}"
                if kind == "exclude" and name not in ("instance", *factors):
                    known = ", ".join(("instance", *factors))
                    check.add(at, None, "is no factor of the matrix", f"factors: {known}")
                elif name == "instance":
                    entry[name] = check.text(one, at)
                elif self._known(name, at, vary):
                    entry[name] = self._single(name, one, at, vary)
            found.append(entry)
        return tuple(found)

    def _single(self, name: str, value: Any, path: str, vary: Mapping[str, Variation]) -> Any:
        if name in _IMPLIED and name not in vary:
            self.checker.add(path, None, "is no factor of the matrix", f"add matrix.{name}")
            return None
        read = self._value(name, value, path, vary)
        if name != "method":
            return read
        if len(read) > 1:
            self.checker.add(path, None, "means several methods", "name one")
        return read[0] if read else MethodEntry("")
