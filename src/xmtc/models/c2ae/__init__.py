"""C2AE: canonical-correlated autoencoder."""

from xmtc.models.c2ae.model import C2ae

__all__ = ["C2ae"]
