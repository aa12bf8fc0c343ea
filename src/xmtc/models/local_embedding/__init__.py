"""Local embeddings: SLEEC and AnnexML, one shell and two ways to learn."""

from xmtc.models.local_embedding.annexml import AnnexMl
from xmtc.models.local_embedding.sleec import Sleec

__all__ = ["AnnexMl", "Sleec"]
