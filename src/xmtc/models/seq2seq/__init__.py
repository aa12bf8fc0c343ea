"""Encoder-decoders that emit a document's labels one after the other: MLC2Seq, SGM, SU4MLC."""

from xmtc.models.seq2seq.model import Mlc2Seq, Sgm, Su4Mlc

__all__ = ["Mlc2Seq", "Sgm", "Su4Mlc"]
