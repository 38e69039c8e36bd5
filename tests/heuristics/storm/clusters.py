"""Small clusters of Storm's kind."""

from __future__ import annotations

from typing import Any

from optim.format.instance import Instance


def chain(
    sizes: list[int], workers: int | None = 2, rates: list[float] | None = None, **parts: Any
) -> Instance:
    """Return a chain of components c0 → c1 → …, loads of 1, on two nodes of four slots."""
    names = [f"c{i}" for i in range(len(sizes))]
    rates = rates or [12.0] * (len(sizes) - 1)
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "chain",
            "nodes": [{"id": f"n{i}", "slots": 4, "capacity": {"cpu": 100}} for i in range(2)],
            "topologies": [{"id": "t", **({} if workers is None else {"workers": workers})}],
            "operators": [
                {"id": n, "topology": "t", "group": {"tasks": k, "load": {"cpu": k}}}
                for n, k in zip(names, sizes, strict=True)
            ],
            "streams": [
                {"from": a, "to": b, "rate": r}
                for a, b, r in zip(names[:-1], names[1:], rates, strict=True)
            ],
            **parts,
        }
    )
