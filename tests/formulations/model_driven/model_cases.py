"""Model-driven instances for tests, small enough to follow by hand."""

from __future__ import annotations

from typing import Any

from optim.format.instance import Instance


def points(*rows: tuple[int, float, float, float]) -> list[dict[str, Any]]:
    """Return a model of (threads, rate, CPU, memory)."""
    return [{"threads": k, "rate": r, "cpu": c, "memory": m} for k, r, c, m in rows]


def model_instance(
    models: dict[str, list[dict[str, Any]]],
    tasks: dict[str, str],
    edges: list[tuple[str, str, float]] = (),  # type: ignore[assignment]
    rate: float | None = 10.0,
    **parts: Any,
) -> Instance:
    """Return tasks (id to model) wired by edges (from, to, selectivity)."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "models",
            "resources": ["cpu", "memory"],
            "operators": [{"id": t, "model": m} for t, m in tasks.items()],
            "streams": [{"from": a, "to": b, "selectivity": s} for a, b, s in edges],
            "models": models,
            "vm_types": [
                {"id": "small", "slots": 1, "price": 0.1},
                {"id": "large", "slots": 2, "price": 0.2},
            ],
            **({} if rate is None else {"input_rate": rate}),
            **parts,
        }
    )


WAITS = points((1, 2, 10, 20), (4, 6, 30, 30), (8, 10, 60, 40))
"""Gains from threads up to 8."""

COMPUTES = points((1, 10, 80, 5), (2, 9, 90, 10))
"""Gains nothing from a second thread."""
