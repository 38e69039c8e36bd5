"""The command's end: as Python's own, except that no module is taken apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENDING = """
import atexit, threading, time
from streamplace.present.streams import leave

class Kept:
    def __del__(self):
        print("taken apart")

kept = Kept()
atexit.register(print, "exit function")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("answer", end=" ")
leave(4)
"""


def test_threads_exit_functions_and_streams_are_waited_for(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, cwd=repository, check=False
    )
    assert done.returncode == 4
    assert done.stdout.split("\n") == ["answer thread", "exit function", ""]
