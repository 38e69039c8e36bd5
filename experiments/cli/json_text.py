"""JSON for standard output; what JSON cannot say (nan, inf) becomes null."""

from __future__ import annotations

import json
from typing import Any

from experiments.cli.streams import write_stdout
from optim.json_values import finite


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    text = json.dumps(finite(document), ensure_ascii=False, indent=1, allow_nan=False)
    write_stdout(text + "\n")
