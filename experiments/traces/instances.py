"""A period of a trace as an instance, and where its key groups are at first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, PlainValidator, model_validator

from experiments.documents import TABLE, Text
from experiments.generators.kinds import instance as instance_of
from experiments.generators.kinds import task_table
from optim.errors import InvalidInput, Problem
from optim.format.document import Fault
from optim.format.instance import Instance
from optim.format.tables import TaskTable, TrafficTable
from optim.methods.registry import method_names
from streamplace.policies.planners import attempt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

    from experiments.traces.folder import TraceFolder
    from experiments.traces.job import ClusterSpec

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OWN = ("round-robin", "worst")
MAX_WORST = 4_000
"""Key groups of one operator up to which the worst placement is found: an assignment problem."""


def check_placement(name: str, where: str = "--placement") -> None:
    """Refuse a name that is no placement."""
    if name not in OWN and name not in method_names():
        remedy = f"{', '.join(OWN)} or a method: see `streamplace methods`"
        raise InvalidInput(Problem(where, name, "is no placement", remedy))


def check_method(name: str) -> None:
    """Refuse a name that is no method."""
    if name not in method_names():
        raise InvalidInput(Problem("--carry", name, "is no method", "see `streamplace methods`"))


def place(maker: InstanceMaker, name: str, period: int, seed: int = 0) -> Integers:
    """Return (T,) node indices.

    `name`: ``round-robin``: key group i of every operator on node i modulo the staying nodes.
        ``worst``: the same number of key groups of every operator on every node, with as little
        traffic within nodes as an operator can have towards those before it, over the whole
        recording. Otherwise a method, which solves `period`.
    `period`: that a method solves.
    Raises `InvalidInput`: there is no such placement, the method cannot take the instance, or it
        finds no plan.
    """
    check_placement(name)
    stays = np.flatnonzero(~maker.nodes.nodes.leaving)
    if name == "round-robin":
        return np.concatenate(
            [stays[np.arange(spec.key_groups) % len(stays)] for spec in maker.job.operators]
        )
    if name == "worst":
        return _worst(maker, stays)
    node, why = planned(maker.instance(period), name, seed)
    if node is None:
        reason = f"finds no plan for period {period}" + (f": {why}" if why else "")
        raise InvalidInput(Problem("--placement", name, reason, "try another one, or round-robin"))
    return node


def planned(instance: Instance, method: str, seed: int) -> tuple[Integers | None, str]:
    """Return the plan of a method, limits that it does not honour left out; or why there is none.

    A method that cannot take the instance, such as one that needs traffic where there is none, has
    no plan for it.
    """
    result, why = attempt(instance, method, seed)
    if result is None or result.plan is None:
        return None, why or ("" if result is None else str(result.termination))
    return result.plan.node_indices(instance).astype(np.int64), ""


def instances(
    maker: InstanceMaker,
    periods: Sequence[int],
    placement: str,
    carry: str | None = None,
    seed: int = 0,
    unplanned: dict[int, str] | None = None,
) -> Iterator[Instance]:
    """Give the instances of consecutive periods with the placement each begins with.

    `maker`: of the trace; where `carry` is given, from its first period on.
    `periods`: which, in order.
    `placement`: at the beginning of the first of them; with `carry`, of the first one of the trace.
    `carry`: a method that plans every period; its plan is what the next one begins with. An empty
        period, or one without plan, changes nothing. ``None``: nothing is ever moved.
    `seed`: period p plans with seed + p.
    `unplanned`: takes the periods that `carry` had no plan for, and why; empty ones are not among
        them.
    """
    chosen = set(periods)
    first = 0 if carry else min(chosen)
    if carry:
        check_method(carry)
    node = place(maker, placement, first, seed)
    for period in range(first, max(chosen) + 1):
        instance = maker.instance(period, node)
        if period in chosen:
            yield instance
        empty = instance.total_traffic == 0 and not instance.total_load.any()
        if carry and period < max(chosen) and not empty:
            following, why = planned(instance, carry, seed + period)
            if following is not None:
                node = following
            elif unplanned is not None:
                unplanned[period] = why


def _worst(maker: InstanceMaker, stays: Any) -> Integers:
    """Place operator after operator, each against those before it: an assignment problem each."""
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_array

    source, target, amount = maker.total_traffic()
    count, width = maker.num_tasks, len(stays)
    one_way = coo_array((amount, (source, target)), shape=(count, count)).tocsr()
    traffic = (one_way + one_way.T).tocsr()
    node = np.full(count, -1, dtype=np.int64)
    for spec in maker.job.operators:
        if spec.key_groups > MAX_WORST:
            reason = f"takes at most {MAX_WORST} key groups an operator; {spec.id} has more"
            raise InvalidInput(Problem("--placement", "worst", reason, "take round-robin"))
        start = maker.start[spec.id]
        own_tasks = np.arange(start, start + spec.key_groups)
        placed = np.flatnonzero(node >= 0)
        within = np.zeros((spec.key_groups, width))
        if len(placed):
            by_node = coo_array(
                (np.ones(len(placed)), (placed, node[placed])), shape=(count, width)
            ).tocsr()
            within = (traffic[own_tasks] @ by_node).toarray()
        # every node has room for its even share, the first ones for one more
        room = np.arange(spec.key_groups) % width
        rows, columns = linear_sum_assignment(within[:, room])
        node[own_tasks[rows]] = room[columns]
    return np.asarray(stays)[node]


# -- a period as an instance -----------------------------------------------------------------------

_ENDLESS = 6  # Digits of a period of a trace that grows, of which there are at most a million.


class InstanceMaker:
    """Makes instances of some periods of a trace; their tables are read once.

    `trace`: finished.
    `first`, `last`: periods that will be asked for; all if not given.
    Raises `InvalidInput`: the job description has no ``[cluster]``, or there are no such periods.
    """

    def __init__(self, trace: TraceFolder, first: int = 0, last: int | None = None) -> None:
        self.trace, self.job = trace, trace.job
        periods = trace.manifest.periods
        last = len(periods) - 1 if last is None else last
        if not 0 <= first <= last < len(periods):
            reason = f"is no period of the trace, which has 0 to {len(periods) - 1}"
            period_text = str(first) if first == last else f"{first}-{last}"
            raise InvalidInput(Problem("--instances", period_text, reason))
        if self.job.cluster is None:
            remedy = "add [cluster] with nodes to the job description and trace again"
            raise InvalidInput(Problem("cluster", None, "is missing", remedy), self.job.source)
        self.cluster: ClusterSpec = self.job.cluster
        sizes = [spec.key_groups for spec in self.job.operators]
        self.start = dict(
            zip([s.id for s in self.job.operators], np.cumsum([0, *sizes]).tolist(), strict=False)
        )
        self.num_tasks = int(sum(sizes))
        self.scale = load_scale(trace)
        self._loads = _Sorted(trace.table("loads", first, last))
        self._rates = _Sorted(trace.table("rates", first, last))
        # state stands where it grew, so that earlier rows hold for later periods
        self._states = _Sorted(trace.table("states", None, last))

    def instance(self, period: int, node: Any = None) -> Instance:
        """Return the instance of a period.

        `period`: its number in the trace.
        `node`: (T,) current node of each key group, in the order of operators; none if not given.
        """
        entry = self.trace.manifest.periods[period]
        bare = self.nodes
        tasks = self._tasks(period, node)
        indptr = np.cumsum([0, *(s.key_groups for s in self.job.operators)]).astype(np.int32)
        operators = replace(
            bare.operators,
            task_indptr=indptr,
            task_indices=np.arange(self.num_tasks, dtype=np.int32),
        )
        return replace(
            bare,
            name=name_of(self.trace, period),
            origin=f"events of {self.job.name} traced from {entry.start} to {entry.end}",
            labels={"period": str(period), "start": entry.start, "end": entry.end},
            operators=operators,
            tasks=tasks,
            traffic=self._traffic(period),
        )

    def total_traffic(self) -> tuple[Integers, Integers, Floats]:
        """Return senders, receivers and amounts of all traffic of the whole recording."""
        table = self.trace.table("rates")
        if not len(table):
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty, np.zeros(0)
        names = ["source", "target", "source_group", "target_group"]
        sums = table.group_by(names).aggregate([("amount", "sum")])
        sums = sums.sort_by([(name, "ascending") for name in names])
        return (
            self._index(sums, "source", "source_group"),
            self._index(sums, "target", "target_group"),
            sums["amount_sum"].to_numpy(),
        )

    # -- parts -----------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> Instance:
        """An instance with the nodes and no key groups."""
        unit = "cost per second" if self.cluster.utilisation is None else "points"
        units = {self.cluster.resource: unit, "rate": "tuples/s"} | dict(self.job.units)
        operators = [{"id": spec.id} for spec in self.job.operators]
        return instance_of(
            self.job.name, "", units=units, operators=operators, **self.cluster.document()
        )

    def _tasks(self, period: int, node: Any) -> TaskTable:
        count = self.num_tasks
        load, state = np.zeros(count), np.full(count, np.nan)
        rows = self._loads.at(period)
        if len(rows):
            load[self._index(rows, "operator", "group")] = rows["load"].to_numpy() * self.scale
        for spec in self.job.operators:
            if any(entry.state is not None for entry in spec.inputs):
                state[self.start[spec.id] : self.start[spec.id] + spec.key_groups] = 0.0
        grown = self._states.up_to(period)
        if len(grown):
            # rows are in the order of periods: the last one of a key group holds
            state[self._index(grown, "operator", "group")] = grown["state"].to_numpy()
        sizes = [spec.key_groups for spec in self.job.operators]
        where = np.full(count, -1) if node is None else np.asarray(node)
        return task_table(
            self._ids,
            load[:, None],
            operator=np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
            member=np.concatenate([np.arange(size) for size in sizes]).astype(np.int32),
            state=state,
            node=where.astype(np.int32),
        )

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        operators = self.job.operators
        return tuple(f"{spec.id}/{group}" for spec in operators for group in range(spec.key_groups))

    def _traffic(self, period: int) -> TrafficTable:
        rows = self._rates.at(period)
        if not len(rows):
            nothing = np.zeros(0, dtype=np.int32)
            return TrafficTable(nothing, nothing, np.zeros(0))
        source = self._index(rows, "source", "source_group")
        target = self._index(rows, "target", "target_group")
        order = np.lexsort((target, source))
        rate = rows["rate"].to_numpy()
        return TrafficTable(
            source[order].astype(np.int32), target[order].astype(np.int32), rate[order]
        )

    def _index(self, rows: pa.Table, operator: str, group: str) -> Integers:
        """(n,) numbers of key groups."""
        encoded = rows[operator].combine_chunks().dictionary_encode()
        sizes = {spec.id: spec.key_groups for spec in self.job.operators}
        names = encoded.dictionary.to_pylist()
        size = np.array([sizes.get(name, 0) for name in names], dtype=np.int64)
        start = np.array([self.start.get(name, 0) for name in names], dtype=np.int64)
        which, number = encoded.indices.to_numpy(), rows[group].to_numpy()
        if ((number < 0) | (number >= size[which])).any():
            reason = "names key groups that the job does not have"
            raise InvalidInput(Problem(str(self.trace.path), None, reason, "trace again"))
        index: Integers = start[which] + number
        return index


def name_of(trace: TraceFolder, period: int) -> str:
    """Return the name of the instance of a period: names in order are periods in order."""
    last = len(trace.manifest.periods) - 1
    width = len(str(last)) if trace.manifest.following is None else _ENDLESS
    return f"{trace.job.name}-p{period:0{width}d}"


class _Sorted:
    """A table, which is in the order of periods, cut without being searched."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self._period = table, table["period"].to_numpy()

    def at(self, period: int) -> pa.Table:
        start, stop = np.searchsorted(self._period, [period, period + 1]).tolist()
        return self._table.slice(start, stop - start)

    def up_to(self, period: int) -> pa.Table:
        return self._table.slice(0, int(np.searchsorted(self._period, period + 1)))


def load_scale(trace: TraceFolder) -> float:
    """Return the load of one unit of cost per second.

    With ``cluster.utilisation`` it is such that the mean load over the recording, empty periods
    included, is that percentage of the capacity of all nodes.

    Raises `InvalidInput`: the recording has no cost that could be scaled.
    """
    cluster = trace.job.cluster
    if cluster is None or cluster.utilisation is None:
        return 1.0 if cluster is None or cluster.load_scale is None else cluster.load_scale
    cost = sum(total["cost"] for total in trace.totals.values())
    seconds = sum(period.seconds for period in trace.manifest.periods)
    if cost <= 0:
        reason = "cannot be reached: the events of the recording cost nothing"
        raise InvalidInput(Problem("cluster.utilisation", cluster.utilisation, reason))
    capacity = sum(node["capacity"][cluster.resource] for node in cluster.nodes)
    return float(cluster.utilisation / 100.0 * capacity * seconds / cost)


def read_range(text: str) -> tuple[int, int] | None:
    """Read ``17`` or ``3-9`` as the first and the last period; ``None`` for ``all``.

    Raises `InvalidInput`: it is none of these.
    """
    if text == "all":
        return None
    first, dash, last = text.partition("-")
    ends = [first, last] if dash else [first, first]
    if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
        raise InvalidInput(Problem("--instances", text, "is no period", "all, 17 or 3-9"))
    low, high = int(ends[0]), int(ends[1])
    if low > high:
        raise InvalidInput(Problem("--instances", text, "ends before it begins", "all, 17 or 3-9"))
    return low, high


def period_range(text: str, count: int) -> Sequence[int]:
    """Return the periods that ``all``, ``17`` or ``3-9`` mean.

    Raises `InvalidInput`: it is none of these, or no such periods exist.
    """
    ends = read_range(text)
    if ends is None:
        return range(count)
    low, high = ends
    if high >= count:
        reason = f"does not lie within the periods 0 to {count - 1}"
        raise InvalidInput(Problem("--instances", text, reason))
    return range(low, high + 1)


# -- statistics periods ----------------------------------------------------------------------------

MAX_PERIODS = 1_000_000

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_SECONDS = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
}  # fmt: skip
_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_UNITS = {*_SECONDS, *_DAYS, *_MONTHS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSURD = 1e15
"""More than any unit is counted in; with hundreds of digits a length is not even a number."""
_MONDAY = 4  # Days from 1970-01-01, a Thursday, to the first Monday.
_NO_ZONES = ("/", ".", "right/", "posix", "localtime", "Factory", "ROC")
"""Beginnings of paths, and of names that Python knows where the system does, but Java does not."""


@dataclass(frozen=True)
class Length:
    """How long a period is: microseconds, or days or months of the calendar."""

    micros: int = 0
    days: int = 0
    months: int = 0

    @property
    def of_calendar(self) -> bool:
        """Whether it is as long as the calendar makes it, and begins at a midnight."""
        return bool(self.days or self.months)

    @classmethod
    def parse(cls, text: str) -> Length:
        """Read ``15 min``, ``1 h``, ``1 day``, ``1 week``, ``1 month`` and the like.

        Raises `ValueError`: with the reason.
        """
        match = _LENGTH.fullmatch(text.strip())
        unit = "" if match is None else match[2].lower()
        unit = unit if unit in ("s", "ms") else unit.removesuffix("s")
        if match is None or unit not in _UNITS:
            raise ValueError("is no length")
        amount = float(match[1])
        if amount > _ABSURD:
            raise ValueError("is absurdly long")
        if unit not in _SECONDS and not amount.is_integer():
            raise ValueError(f"must be whole {unit}s")
        if unit in _DAYS:
            length = cls(days=int(amount) * _DAYS[unit])
        elif unit in _MONTHS:
            length = cls(months=int(amount) * _MONTHS[unit])
        else:
            length = cls(micros=round(amount * _SECONDS[unit] * 1_000_000))
        if length == cls():
            raise ValueError("has no length")
        days = length.micros / 86_400e6 + length.days + length.months * 30
        if days > 100_000:
            raise ValueError("is absurdly long")
        return length


class Period(NamedTuple):
    """One statistics period: from `start` to before `end`."""

    number: int
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """True length; a calendar day may have 23 or 25 hours."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Calendar:
    """Which period a moment falls in."""

    length: Length  # Of a period.
    zone: str = "UTC"  # Time zone of calendar days.
    #: Of the recording; ``None``: from the period of the first event to that of the last.
    start: datetime | None = None
    end: datetime | None = None
    #: What becomes of an event that arrives after its period: ``keep``, ``drop`` or ``move`` into
    #: the period in which it arrives.
    late: str = "keep"
    lateness: float = 0.0  # Seconds after the end of a period in which its events are still taken.

    def bucket(self, moment: Column) -> Column:
        """Return the number of the period of moments, counted from `origin`."""
        from pyspark.sql import functions as F

        length = self.length
        if length.of_calendar:
            local = F.to_date(F.from_utc_timestamp(moment, self.zone))
            if length.days:
                unit, units = F.unix_date(local), length.days
            else:
                unit, units = F.year(local) * 12 + F.month(local) - 1, length.months
            return F.floor((unit - self.origin) / units).cast("bigint")
        width = F.lit(length.micros).cast("bigint")
        micros = F.unix_micros(moment) - F.lit(self.origin).cast("bigint")
        return ((micros - F.pmod(micros, width)) / width).cast("bigint")

    @property
    def origin(self) -> int:
        """Microsecond or day since 1970, or month since the year 0, at which period 0 begins."""
        if self.start is not None:
            return self._unit_of(self.start)
        if self.length.months:
            return 1970 * 12
        return _MONDAY if self.length.days and self.length.days % 7 == 0 else 0

    def period(self, bucket: int, number: int) -> Period:
        """Return a period by its bucket; it ends where the recording does, if that comes first.

        Raises `OverflowError`: it lies outside the years 1 to 9999.
        """
        start, end = self._begin(bucket), self._begin(bucket + 1)
        if self.end is not None:
            end = min(end, self.end)
        return Period(number, start, end)

    def bucket_of(self, moment: datetime) -> int:
        """Return the bucket of a moment."""
        length = self.length
        width = length.days or length.months or length.micros
        return (self._unit_of(moment) - self.origin) // width

    def _unit_of(self, moment: datetime) -> int:
        """Return the microsecond, day or month that a moment lies in."""
        if not self.length.of_calendar:
            return micros_of(moment)
        local = moment.astimezone(ZoneInfo(self.zone)).date()
        if self.length.months:
            return local.year * 12 + local.month - 1
        return (local - date(1970, 1, 1)).days

    def _begin(self, bucket: int) -> datetime:
        if not self.length.of_calendar:
            return _EPOCH + timedelta(microseconds=self.origin + bucket * self.length.micros)
        if self.length.months:
            year, month = divmod(self.origin + bucket * self.length.months, 12)
            if not 1 <= year <= 9999:
                raise OverflowError
            day = date(year, month + 1, 1)
        else:
            day = date(1970, 1, 1) + timedelta(days=self.origin + bucket * self.length.days)
        return datetime.combine(day, time(), ZoneInfo(self.zone)).astimezone(UTC)


def micros_of(moment: datetime) -> int:
    """Return the microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


# -- as a job description has them -----------------------------------------------------------------


def _zone(name: str) -> str:
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError
        ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise Fault("is no time zone", "such as UTC or America/New_York") from None
    return name


def _length(value: Any) -> Length:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("is no length")
        return Length.parse(value if isinstance(value, str) else f"{value} s")
    except ValueError as error:
        raise Fault(str(error), "such as 15 min, 1 h, 1 day, 1 week or 1 month") from None


def _lateness(value: Any) -> float:
    """Return the seconds of a length that may be 0."""
    length = Length() if value in (0, "0") else _length(value)
    if length.months:
        raise Fault("must be a fixed time", "such as 30 days")
    return length.micros / 1e6 + 86400.0 * length.days


def _moment(value: Any) -> datetime:
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime) or not 1900 <= value.year <= 2900:
            raise ValueError
    except ValueError:
        raise Fault("is no moment", "such as 2013-01-01 or 2013-01-01T06:00:00Z") from None
    return value


Zone = Annotated[Text, AfterValidator(_zone)]


class PeriodTable(BaseModel):
    """The table ``[period]``."""

    model_config = TABLE
    length: Annotated[Length, PlainValidator(_length)]
    timezone: Zone = "UTC"
    start: Annotated[datetime, PlainValidator(_moment)] | None = None
    end: Annotated[datetime, PlainValidator(_moment)] | None = None
    late: Literal["keep", "drop", "move"] = "keep"
    lateness: Annotated[float, PlainValidator(_lateness)] = 0.0

    @model_validator(mode="after")
    def _in_order(self) -> PeriodTable:
        calendar = self.calendar()
        start, end = calendar.start, calendar.end
        if start and end and end <= start:
            problem = Problem("end", str(self.end), "must lie after period.start")
            raise Fault(problems=[problem])
        if start and self.length.of_calendar:
            local = start.astimezone(ZoneInfo(self.timezone))
            reason = ""
            if local.time() != time():
                reason = f"must be a midnight in {self.timezone} for periods of the calendar"
            elif self.length.months and local.day != 1:
                reason = "must be the first of a month for periods of months"
            if reason:
                raise Fault(problems=[Problem("start", str(self.start), reason)])
        return self

    def calendar(self) -> Calendar:
        """Return the periods; moments without offset are of their time zone."""
        zone = ZoneInfo(self.timezone)
        start, end = (
            moment.replace(tzinfo=zone) if moment and moment.tzinfo is None else moment
            for moment in (self.start, self.end)
        )
        return Calendar(self.length, self.timezone, start, end, self.late, self.lateness)
