"""The steps as a file: what ``run-steps`` reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.stepping.steps import Steps


def steps_text(steps: Steps) -> str:
    """Return the steps as JSON text."""
    return json.dumps(steps.to_dict(), ensure_ascii=False, indent=1) + "\n"
