"""APLC-XLNet: a pretrained transformer with adaptive probabilistic label clusters."""

from xmtc.models.aplc_xlnet.model import AplcXlNet

__all__ = ["AplcXlNet"]
