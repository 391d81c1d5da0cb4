"""Calipers measures language models and agents.

The public names and where they live are listed once, in `__init__.pyi`; each is imported when it is
first used, so that `import calipers` takes milliseconds.

>>> import calipers as cal
>>> score = cal.score([{"answer": "18.0", "target": "18"}, {"answer": "7", "target": "8"}])
>>> score.groups[0].metrics["accuracy"].value
0.5
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
