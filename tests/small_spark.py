"""Settings of Spark for tables of ten rows, where planning and generating code is all the work."""

SMALL = {
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Of the session that the tests of a process share; commands that are started have our own."""
