"""X-Transformer: a transformer matcher before linear rankers."""

from xmtc.models.x_transformer.model import XTransformer

__all__ = ["XTransformer"]
