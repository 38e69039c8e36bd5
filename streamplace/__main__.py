"""The command ``streamplace``, and ``python -m streamplace``."""

from __future__ import annotations

import gc
import os
from typing import NoReturn

from streamplace.packages import claim


def main() -> NoReturn:
    """Run the command line with our own packages, and end the process with its exit status."""
    # `--threads` is what users ask for, and a thread a core takes 0.1 s to begin with
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # modules and their classes stay: passes over them find nothing
    claim()
    from streamplace.cli.main import main as run
    from streamplace.present.streams import leave

    leave(run())


if __name__ == "__main__":
    main()
