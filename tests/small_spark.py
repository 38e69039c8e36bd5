"""Settings of Spark for tables of ten rows, where planning and generating code is all the work."""

import os

_QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "ci"
"""`make test`: rows lie together, no query moves them, a fifth of the work; `make test-all` spreads
them."""

SMALL = {
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1" if _QUICK else "10MB",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.maxMetadataStringLength": "1000",  # plans name the files that they read
    "spark.ui.retainedStages": "100000",  # skipped ones would go first
    "spark.sql.shuffle.partitions": "1" if _QUICK else "2",
}
"""Of the session that the tests of a process share; commands that are started have our own."""
