"""Pack our packages into the zip that executors import from.

Spark ships a ``.whl`` but cannot import from it; a ``.zip`` it can. The zip also holds the
distribution's metadata, because methods are found by entry points, which live there.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import io
import shutil
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

DISTRIBUTION = "streamplace"
PACKAGES = ("experiments", "formulations", "heuristics", "optim", "streamplace")

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
_METADATA_FILES = ("METADATA", "entry_points.txt")


def build_zip(folder: Path | None = None) -> Path:
    """Write the zip and return its path; its name carries the hash of its content.

    Parameters
    ----------
    folder
        Where to put it; if not given, a fresh temporary folder that goes with this process, since
        Spark serves the file for as long as the session lives.
    """
    content = zip_content()
    digest = hashlib.sha256(content).hexdigest()[:12]
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="streamplace-zip-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{DISTRIBUTION}-{digest}.zip"
    path.write_bytes(content)
    return path


def zip_content() -> bytes:
    """Return the zip's bytes: the same sources give the same bytes, whatever their time stamps."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(_members().items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=6)
    return buffer.getvalue()


def _members() -> dict[str, bytes]:
    members = _metadata_members()
    for package in PACKAGES:
        root = _package_folder(package)
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if path.is_file() and "__pycache__" not in inside.parts:
                members[str(PurePosixPath(package, *inside.parts))] = path.read_bytes()
    return members


def _package_folder(package: str) -> Path:
    file = importlib.import_module(package).__file__
    if file is None:
        raise ModuleNotFoundError(f"{package} is not an ordinary package", name=package)
    return Path(file).parent


def _metadata_members() -> dict[str, bytes]:
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}
    folder = f"{DISTRIBUTION}-{distribution.version}.dist-info"
    texts = {name: distribution.read_text(name) for name in _METADATA_FILES}
    return {f"{folder}/{name}": text.encode() for name, text in texts.items() if text}
