"""Forests of document trees: FastXML, PfastreXML, CRAFTML."""

from xmtc.models.forest.craftml import CraftMl
from xmtc.models.forest.fastxml import FastXml
from xmtc.models.forest.pfastrexml import PfastreXml

__all__ = ["CraftMl", "FastXml", "PfastreXml"]
