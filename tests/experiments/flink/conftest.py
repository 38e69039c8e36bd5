"""The fixtures of the importers: saved documents, and a server on loopback that gives them out."""

from tests.experiments.interchange.conftest import saved, serve

__all__ = ["saved", "serve"]
