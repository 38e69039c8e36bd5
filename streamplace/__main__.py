"""The command ``streamplace``, and ``python -m streamplace``."""

from __future__ import annotations

from streamplace.packages import claim


def main() -> int:
    """Run the command line with our own packages, and return its exit status."""
    claim()
    from experiments.cli.main import main as run

    return run()


if __name__ == "__main__":
    status = main()
    from experiments.cli.streams import leave

    leave(status)
