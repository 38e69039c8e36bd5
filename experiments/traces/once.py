"""The sums of a recording, in one pass over it where its first lines tell its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from experiments.traces.gathering import gather
from experiments.traces.judging import judge
from experiments.traces.preparing import prepare
from experiments.traces.room import is_full
from optim.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from experiments.traces.appending import Feed
    from experiments.traces.gathering import Gathered
    from experiments.traces.job import Job
    from experiments.traces.recordings import Events


def sums(
    session: SparkSession, job: Job, events: Events, feed: Feed, uri: str
) -> tuple[Gathered, dict[str, Any]]:
    """Return what a recording comes to, as a table at a URI, and as `judge` tells it.

    Raises
    ------
    InvalidInput
        As `prepare` and `judge`.
    PySparkException, Py4JJavaError
        Spark gave up.
    """
    if events.format == "jsonl":
        kept: tuple[DataFrame, ...] = ()
        try:
            guessed = prepare(session, job, events, feed.paths, feed.open_from(job), guess=True)
            kept = guessed.rows.kept
            if guessed.rows.guessed:
                gathered = gather(session, job, guessed, uri)
                return gathered, judge(job, gathered)
        except (PySparkException, Py4JJavaError, InvalidInput) as error:
            # unlike its first lines, or wrong: that is told of the columns that all lines have
            if is_full(error):
                raise
        for table in kept:
            table.unpersist()
        uri += "-again"
    prepared = prepare(session, job, events, feed.paths, feed.open_from(job))
    gathered = gather(session, job, prepared, uri)
    return gathered, judge(job, gathered)
