"""The command ``streamplace``, and ``python -m streamplace``."""

from __future__ import annotations

import os

from streamplace.packages import claim


def main() -> int:
    """Run the command line with our own packages, and return its exit status."""
    # `--threads` is what users ask for, and a thread a core takes 0.1 s to begin with
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    claim()
    from experiments.cli.main import main as run

    return run()


if __name__ == "__main__":
    status = main()
    from experiments.cli.streams import leave

    leave(status)
