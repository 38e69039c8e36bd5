"""The little of YAML that is exported: settings a line, documents apart by ---."""

from __future__ import annotations

import json
from typing import Any

import yaml


def settings_in(text: str) -> list[dict[str, Any]]:
    """Return the settings of each document; a key that stands twice in one is refused."""
    found = []
    for document in text.split("---\n"):
        lines = [line for line in document.splitlines() if not line.startswith("#")]
        pairs = [line.split(": ", 1) for line in lines]
        found.append({key: json.loads(value) for key, value in pairs})
        assert len(found[-1]) == len(pairs), document
        assert found[-1] == (yaml.safe_load(document) or {})
    return found
