"""The fixtures of the importers: saved documents, and a server on loopback that gives them out."""

from tests.streamplace.clusters.conftest import saved, serve

__all__ = ["saved", "serve"]
