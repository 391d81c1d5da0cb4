"""What is under test: model APIs, Python functions, commands, servers; all are asked alike."""

from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.masking import Mask
from calipers.systems.secrets import mask_for

__all__ = ["Call", "Fault", "Mask", "Reply", "System", "mask_for"]
