"""Install into the environment of the interpreter that runs this: with uv, or else with pip.

``python .ci/install.py -e '.[dev]'``. uv resolves, fetches and unpacks side by side, in half the
time. It reads neither pip's files nor its variables, so what pip is told of indexes, certificates
and proxies is told to uv too; where uv cannot be had or fails, pip does the work.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
UV = Path(sys.prefix, "uv")
TOLD = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
    "proxy": "ALL_PROXY",
    "no-cache-dir": "UV_NO_CACHE",
}
"""Settings of pip, and the variables that tell uv the same."""
UNKNOWN = {"client-cert", "constraint", "only-binary", "no-binary", "prefer-binary", "pre", "user"}
"""Settings that only pip follows: with one of them, pip it is."""


def environment(listed: str) -> dict[str, str] | None:
    """Return uv's variables for what ``pip config list`` prints; None if pip is told more."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        name = name.replace("_", "-")
        if section not in (":env:", "global", "install"):
            continue
        if name in UNKNOWN:
            return None
        if name in TOLD:
            words = str(ast.literal_eval(value)).split()
            separator = "," if name == "find-links" else " "
            found[TOLD[name]] = separator.join(words)
    return found


def with_uv(arguments: list[str]) -> bool:
    """Install with uv; tell whether that went well."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False)
    told = environment(listed.stdout)
    if told is None or os.environ.get("STREAMPLACE_INSTALLER") == "pip":
        return False
    # as pip does: the best version that any index has; no .pyc, of which few would be read
    told |= {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NO_PROGRESS": "1"}
    if "UV_CACHE_DIR" not in os.environ:  # which would keep another 2 GB in the home directory
        told["UV_NO_CACHE"] = "1"
    get = [*PIP, "install", "--quiet", "--no-compile", "--target", str(UV), "--upgrade", "uv>=0.5"]
    if not (UV / "bin" / "uv").exists() and subprocess.run(get, check=False).returncode:
        return False
    command = [UV / "bin" / "uv", "pip", "install", "--quiet", "--python", sys.executable]
    asked = {**told, **os.environ}
    return subprocess.run([*command, *arguments], env=asked, check=False).returncode == 0


def main() -> int:
    """Install what the arguments name; return pip's exit status where pip was needed."""
    arguments = ["-c", "constraints.txt", *sys.argv[1:]]
    if with_uv(arguments):
        return 0
    print("uv did not do it: installing with pip", file=sys.stderr)
    return subprocess.run([*PIP, "install", "--quiet", "--no-compile", *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main())
