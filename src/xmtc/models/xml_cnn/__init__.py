"""XML-CNN: convolutions over word vectors with dynamic max pooling."""

from xmtc.models.xml_cnn.model import XmlCnn

__all__ = ["XmlCnn"]
