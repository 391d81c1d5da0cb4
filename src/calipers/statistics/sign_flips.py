"""Fisher's randomisation test of paired differences: each sign might as well be the other one."""

from __future__ import annotations

from math import erfc, sqrt

from calipers.statistics.arrays import Floats
from calipers.support.late import np

EXACT = 16  # flips: all 65,536 sign patterns are tried
NORMAL = 20_000  # differences that count: their sum is normal, p < 0.05 right to 0.001

_ROUNDING = 1e-12
_BLOCK = 8  # flips that one random byte decides
_BLOCKS_AT_ONCE = 64  # bounds memory: 640 kB of bytes for 10,000 resamples


def permute_signs(differences: Floats, *, seed: int, resamples: int) -> float | None:
    """Return the two-sided p of the sum of differences under random flips of their signs.

    Fisher's (1935) randomisation test: exact up to 16 flips, from seeded resamples above, where
    (count + 1) / (resamples + 1) keeps the level: Phipson & Smyth (2010). Of very many, the normal
    distribution that the sum tends to, whose variance is known: Σd². None for more than 16 where
    `resamples` is 0.
    """
    moved = differences[differences != 0]
    observed = abs(moved.sum()) - _ROUNDING * np.abs(moved).sum()
    if moved.size <= EXACT:
        return float(np.mean(np.abs(_sum_signed(moved)) >= observed))
    if not resamples:
        return None
    squares = moved * moved
    variance = float(squares.sum())
    if variance**2 >= NORMAL * float(squares @ squares):  # few large ones count for few
        return erfc(abs(float(moved.sum())) / sqrt(2 * variance))
    rng = np.random.default_rng(seed)
    sums = np.zeros(resamples)
    blocks = np.pad(moved, (0, -moved.size % _BLOCK)).reshape(-1, _BLOCK)
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        tables = _sum_signed(blocks[start : start + _BLOCKS_AT_ONCE])
        picks = np.frombuffer(rng.bytes(len(tables) * resamples), dtype=np.uint8)
        for table, pick in zip(tables, picks.reshape(-1, resamples), strict=True):
            sums += table.take(pick)
    return float((1 + np.count_nonzero(np.abs(sums) >= observed)) / (resamples + 1))


def _sum_signed(values: Floats) -> Floats:
    """Return the sums along the last axis under every pattern of signs."""
    sums = np.zeros((*values.shape[:-1], 1))
    for column in np.moveaxis(values, -1, 0):
        step = column[..., np.newaxis]
        sums = np.concatenate([sums + step, sums - step], axis=-1)
    return sums
