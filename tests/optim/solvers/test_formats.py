"""What is handed to the solvers holds the model exactly: MPS text, protocol buffer, packed file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.solvers.cbc import outward_trimmed
from optim.solvers.linear_model import LinearModel
from optim.solvers.mps import column_order, mps_text
from optim.solvers.process import Frames, Lines, pack
from optim.solvers.scip import mp_model, outward, padded_indices, varint
from optim.solvers.workers import HEADER, Packed
from tests.optim.solvers.models import balance, random_model


def parsed(data: bytes):  # type: ignore[no-untyped-def]
    import ortools.linear_solver.linear_solver_pb2 as linear_solver_pb2

    return linear_solver_pb2.MPModelProto.FromString(data)


@given(seed=st.integers(0, 100_000))
def test_protocol_buffer_holds_the_model(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    arrays = model.freeze()
    hint = np.arange(arrays.num_variables) / 3.0
    proto = parsed(mp_model(arrays, hint))
    assert proto.maximize == (arrays.sense == "max")
    assert proto.objective_offset == arrays.offset
    assert [v.lower_bound for v in proto.variable] == arrays.lower.tolist()
    assert [v.upper_bound for v in proto.variable] == arrays.upper.tolist()
    assert [v.objective_coefficient for v in proto.variable] == arrays.cost.tolist()
    assert [v.is_integer for v in proto.variable] == arrays.integrality.tolist()
    assert [c.lower_bound for c in proto.constraint] == arrays.row_lower.tolist()
    assert [c.upper_bound for c in proto.constraint] == arrays.row_upper.tolist()
    dense = np.zeros((arrays.num_rows, arrays.num_variables))
    for i, row in enumerate(proto.constraint):
        dense[i, list(row.var_index)] = list(row.coefficient)
    assert np.array_equal(dense, arrays.matrix.toarray())
    assert list(proto.solution_hint.var_index) == list(range(arrays.num_variables))
    assert list(proto.solution_hint.var_value) == hint.tolist()


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**28 - 1, 2**40])
def test_varints_are_read_back(value: int) -> None:
    decoded = sum((byte & 0x7F) << (7 * k) for k, byte in enumerate(varint(value)))
    assert decoded == value


def test_padded_indices_reach_their_end() -> None:
    data = padded_indices(np.array([0, 5, 2**28 - 1]))
    assert len(data) == 12
    last = sum((byte & 0x7F) << (7 * k) for k, byte in enumerate(data[8:]))
    assert last == 2**28 - 1
    assert data[11] & 0x80 == 0


@given(seed=st.integers(0, 100_000))
def test_mps_holds_the_model(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    from ortools.linear_solver.python import model_builder_helper

    arrays = random_model(np.random.default_rng(seed)).freeze()
    helper = model_builder_helper.ModelBuilderHelper()
    assert helper.import_from_mps_string(mps_text(arrays))
    order = column_order(arrays)
    sign = 1.0 if arrays.sense == "min" else -1.0
    for k, j in enumerate(order.tolist()):
        assert helper.var_name(k) == f"C{j}"
        assert helper.var_lower_bound(k) == arrays.lower[j]
        assert helper.var_upper_bound(k) == arrays.upper[j]
        assert helper.var_is_integral(k) == arrays.integrality[j]
        assert helper.var_objective_coefficient(k) == sign * arrays.cost[j]
    if arrays.offset:
        last = arrays.num_variables
        assert helper.var_lower_bound(last) == helper.var_upper_bound(last) == 1.0
        assert helper.var_objective_coefficient(last) == sign * arrays.offset
    kept = np.flatnonzero(np.isfinite(arrays.row_lower) | np.isfinite(arrays.row_upper))
    assert helper.num_constraints() == len(kept)
    for k, i in enumerate(kept.tolist()):
        assert helper.constraint_lower_bound(k) == pytest.approx(arrays.row_lower[i], abs=1e-12)
        assert helper.constraint_upper_bound(k) == arrays.row_upper[i]
        row = np.zeros(arrays.num_variables)
        columns = order[list(helper.constraint_var_indices(k))]
        row[columns] = list(helper.constraint_coefficients(k))
        assert np.array_equal(row, arrays.matrix.toarray()[i])


def test_mps_of_unusual_bounds() -> None:
    model = LinearModel("bounds")
    model.add_variables("free", 1, -np.inf, np.inf)
    model.add_variables("below", 1, -np.inf, -2.0, integer=True)
    model.add_variables("above", 1, 3.0, np.inf, integer=True)
    model.add_variables("fixed", 1, 1.5, 1.5)
    model.add_rows("free", -np.inf, np.inf, [0], [0], [1.0])
    model.add_rows("at least", 2.0, np.inf, [0], [0], [1.0])
    lines = mps_text(model.freeze()).splitlines()
    for line in (
        " FR B C0",
        " MI B C1",
        " UP B C1 -2.0",
        " LO B C2 3.0",
        " PL B C2",
        " FX B C3 1.5",
    ):
        assert line in lines
    assert " G R1" in lines
    assert not any("R0" in line for line in lines)


def test_packed_arrays_are_read_back(tmp_path: Path) -> None:
    arrays = {
        "d": np.array([1.5, -np.inf]),
        "i": np.arange(5, dtype=np.int32),
        "q": np.array([-(2**62)]),
        "none": np.empty(0),
    }
    pack(tmp_path / "file", {"text": "ä" * 1000, "number": None}, arrays)
    packed = Packed(str(tmp_path / "file"))
    assert packed.header["text"] == "ä" * 1000
    assert packed.header["number"] is None
    assert "d" in packed
    assert "x" not in packed
    for name, array in arrays.items():
        assert packed.view(name).tolist() == array.tolist()
        assert list(packed.ctypes_array(name))[: len(array)] == array.tolist()


@given(cuts=st.lists(st.integers(1, 30), max_size=20))
def test_frames_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    payloads = [b"", b"abc", bytes(range(50))]
    stream = b"".join(HEADER.pack(b"X", len(p)) + p for p in payloads)
    got: list[bytes] = []
    frames = Frames({b"X": got.append})
    for size in [*cuts, len(stream)]:
        frames(stream[:size])
        stream = stream[size:]
    assert got == payloads


def test_lines_survive_a_raising_reader() -> None:
    got: list[str] = []

    def read(line: str) -> None:
        got.append(line)
        if line == "two":
            raise KeyboardInterrupt

    lines = Lines(read)
    with pytest.raises(KeyboardInterrupt):
        lines(b"one\r\ntwo\r\nthr")
    lines(b"ee\nfour")
    lines(b"")
    assert got == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("text", "sense", "expected"),
    [
        ("5.19", "min", 5.185),
        ("-5.19", "max", -5.185),
        ("1.000000e+20", "min", 1e20 - 0.5e14),
        ("7", "max", 7.5),
    ],
)
def test_printed_bounds_are_weakened_by_half_a_digit(
    text: str, sense: str, expected: float
) -> None:
    assert outward(text, sense) == pytest.approx(expected, rel=1e-15)


@given(value=st.floats(-1e12, 1e12).filter(lambda v: abs(v) > 1e-9))
def test_trimmed_bounds_are_never_stronger_than_what_was_printed(value: float) -> None:
    text = f"{value:.8g}"
    assert outward_trimmed(text, "min", 8) <= value
    assert outward_trimmed(text, "max", 8) >= value
    assert abs(outward_trimmed(text, "min", 8) - value) <= 2e-7 * abs(value)


def test_writing_leaves_the_model_alone() -> None:
    model = balance(2, 4)
    before = model.freeze().matrix.toarray().copy()
    mps_text(model.freeze())
    mp_model(model.freeze())
    assert np.array_equal(model.freeze().matrix.toarray(), before)
