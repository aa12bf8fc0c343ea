"""AttentionXML: label tree, BiLSTM, multi-label attention."""

from xmtc.models.attentionxml.model import AttentionXml

__all__ = ["AttentionXml"]
