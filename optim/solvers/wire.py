"""OR-Tools' ``MPModelProto`` written straight from arrays, in bulk.

Building the message through its Python class costs a call a coefficient, and OR-Tools' own bulk
call (``fill_model_from_sparse_data``) still one a variable for integrality and start: 6.6 s for
200 nodes × 10,000 tasks where this takes 2.0. The wire format is simple enough to lay out with
numpy: variables are records of fixed size, and indices are written as varints padded to four bytes
(28 bits), which every parser of Protocol Buffers takes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.linear_arrays import LinearArrays

# field numbers of linear_solver.proto, shifted by three and joined with the wire type
_VARIABLE, _CONSTRAINT, _MAXIMIZE, _OFFSET, _HINT = 0x1A, 0x22, 0x08, 0x11, 0x32
_RECORD = np.dtype(
    [
        ("message", "u1"), ("length", "u1"),
        ("lower_tag", "u1"), ("lower", "<f8"),
        ("upper_tag", "u1"), ("upper", "<f8"),
        ("cost_tag", "u1"), ("cost", "<f8"),
        ("integer_tag", "u1"), ("integer", "u1"),
    ]
)  # fmt: skip


def varint(value: int) -> bytes:
    """Encode a number ≥ 0 as a varint.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def padded_indices(indices: NDArray[np.integer[Any]]) -> bytes:
    """Encode indices as varints of four bytes each."""
    wide = indices.astype("<u4")
    out = np.empty((len(wide), 4), dtype=np.uint8)
    for k in range(4):
        out[:, k] = (wide >> (7 * k)) & 0x7F
    out[:, :3] |= 0x80
    return out.tobytes()


def mp_model(arrays: LinearArrays, hint: NDArray[np.float64] | None = None) -> bytes:
    """Serialise the model, with a full solution hint if one is given.

    Parameters
    ----------
    arrays
        The model.
    hint
        One value a variable.
    """
    parts = [bytes([_MAXIMIZE, int(arrays.sense == "max")])]
    parts.append(struct.pack("<Bd", _OFFSET, arrays.offset))
    parts.append(_variables(arrays))
    parts += _constraints(arrays)
    if hint is not None:
        ids = padded_indices(np.arange(len(hint)))
        values = hint.astype("<f8").tobytes()
        body = b"\x0a" + varint(len(ids)) + ids + b"\x12" + varint(len(values)) + values
        parts.append(bytes([_HINT]) + varint(len(body)) + body)
    return b"".join(parts)


def _variables(arrays: LinearArrays) -> bytes:
    records = np.zeros(arrays.num_variables, dtype=_RECORD)
    records["message"], records["length"] = _VARIABLE, _RECORD.itemsize - 2
    records["lower_tag"], records["lower"] = 0x09, arrays.lower
    records["upper_tag"], records["upper"] = 0x11, arrays.upper
    records["cost_tag"], records["cost"] = 0x19, arrays.cost
    records["integer_tag"], records["integer"] = 0x20, arrays.integrality
    return records.tobytes()


def _constraints(arrays: LinearArrays) -> list[bytes]:
    ids = padded_indices(arrays.matrix.indices)
    values = arrays.matrix.data.astype("<f8", copy=False).tobytes()
    starts = arrays.matrix.indptr.tolist()
    bounds = zip(arrays.row_lower.tolist(), arrays.row_upper.tolist(), strict=True)
    pack = struct.Struct("<BdBd").pack
    parts: list[bytes] = []
    for i, (low, high) in enumerate(bounds):
        start, stop = starts[i], starts[i + 1]
        head = pack(0x11, low, 0x19, high)
        id_head = b"\x32" + varint(4 * (stop - start))
        value_head = b"\x3a" + varint(8 * (stop - start))
        length = len(head) + len(id_head) + len(value_head) + 12 * (stop - start)
        parts += (
            bytes([_CONSTRAINT]) + varint(length) + head + id_head, ids[4 * start : 4 * stop],
            value_head, values[8 * start : 8 * stop],
        )  # fmt: skip
    return parts
