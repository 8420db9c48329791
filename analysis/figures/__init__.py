"""Figures: each function takes what was compared and returns a matplotlib Figure; `analysis.style.save` writes it."""

from analysis.figures.curves import learning_curves
from analysis.figures.forest import forest
from analysis.figures.lengths import score_against_length
from analysis.figures.scatter import score_against_cost
from analysis.figures.seeds import seed_strip

__all__ = ["forest", "learning_curves", "score_against_cost", "score_against_length", "seed_strip"]
