"""TReaderXML: dynamic semantic scope from similar texts and label hierarchies."""

from xmtc.models.treaderxml.model import TReaderXml

__all__ = ["TReaderXml"]
