"""XML-CNN: convolutions over word vectors with dynamic max pooling; BoW-CNN: regions as bags of words."""

from xmtc.models.xml_cnn.bow_cnn import BowCnn
from xmtc.models.xml_cnn.model import XmlCnn

__all__ = ["BowCnn", "XmlCnn"]
