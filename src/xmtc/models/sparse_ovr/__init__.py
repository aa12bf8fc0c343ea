"""Sparse linear classifiers for all labels, L1-regularised: ProXML, PPD-Sparse and PD-Sparse."""

from xmtc.models.sparse_ovr.pd_sparse import PdSparse
from xmtc.models.sparse_ovr.ppd_sparse import PpdSparse
from xmtc.models.sparse_ovr.proxml import ProXml

__all__ = ["PdSparse", "PpdSparse", "ProXml"]
