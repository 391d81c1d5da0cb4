"""The colours of charts, which pages take too; nothing that draws is loaded for them."""

from __future__ import annotations

INK, GREY, FAINT, PAPER = "#222222", "#666666", "#dddddd", "#ffffff"

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, without the yellow that is hard to see on white."""
