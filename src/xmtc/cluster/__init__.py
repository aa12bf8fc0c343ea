"""Training and tagging on several machines, by Ray; nothing else in the package knows it."""

from xmtc.cluster.connection import connect
from xmtc.cluster.ray_executor import RayExecutor

__all__ = ["RayExecutor", "connect"]
