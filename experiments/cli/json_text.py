"""JSON for standard output; what JSON cannot say (nan, inf) becomes null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from experiments.cli.streams import write_stdout


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    text = json.dumps(_finite(document), ensure_ascii=False, indent=1, allow_nan=False)
    write_stdout(text + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
