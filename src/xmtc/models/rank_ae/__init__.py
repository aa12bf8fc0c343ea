"""Rank-AE: a ranking auto-encoder with dual attention."""

from xmtc.models.rank_ae.model import RankAe

__all__ = ["RankAe"]
