"""LightXML: a transformer with dynamic negative sampling."""

from xmtc.models.lightxml.model import LightXml

__all__ = ["LightXml"]
