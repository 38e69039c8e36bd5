"""What forks the Python workers of a local Spark: pyspark's daemon, with our own packages loaded.

Workers look modules up by name, and the folder of the command comes first there. On a cluster they
find ours in the zip that is shipped to them. The one import of Spark outside of `experiments`:
Spark starts this module by its name, before our packages are claimed, and in a folder that has an
``experiments`` of its own it would find that one.
"""

from __future__ import annotations

import importlib
import os

from pyspark.daemon import manager

from streamplace.packages import claim

PRELOAD = "STREAMPLACE_PRELOAD"
"""Environment variable that names modules to import once, before workers are forked.

They must start no threads that a fork would break: none that import pyarrow or pandas.
"""

if __name__ == "__main__":
    claim()
    for name in os.environ.get(PRELOAD, "").split():
        importlib.import_module(name)
    manager()
