"""JSON for standard output; what JSON cannot say (nan, inf) becomes null."""

from __future__ import annotations

import json
from typing import Any

from optim.json_values import finite
from streamplace.present.streams import write_stdout


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    text = json.dumps(finite(document), ensure_ascii=False, indent=1, allow_nan=False)
    write_stdout(text + "\n")
