"""Ordinary least squares that knows what it cannot estimate."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from analysis.statistics.samples import Floats

NAN = math.nan


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of coefficients with its t interval; NaN throughout where it is not estimable."""

    estimate: float
    se: float
    low: float
    high: float
    t: float
    p: float  # two-sided
    estimable: bool


@dataclass(frozen=True)
class LeastSquares:
    """y = X beta + noise, by the shortest beta. A contrast c beta is estimable iff c lies in the rows of X."""

    coefficients: Floats
    inverse: Floats  # (X'X)^+
    row_space: Floats  # X^+ X, the projector on it
    rank: int
    df: int  # of the residual
    rss: float

    @property
    def sigma(self) -> float:
        """sqrt(RSS / df); NaN where no degree of freedom is left."""
        return math.sqrt(self.rss / self.df) if self.df else NAN

    def contrast(self, weights: Floats, level: float) -> Contrast:
        """c beta -+ t_df sigma sqrt(c (X'X)^+ c'). Where the fit is exact (sigma 0) there is no test: p is NaN."""
        if not np.allclose(weights @ self.row_space, weights, atol=1e-8):
            return Contrast(NAN, NAN, NAN, NAN, NAN, NAN, estimable=False)
        estimate = float(weights @ self.coefficients)
        se = self.sigma * math.sqrt(max(0.0, float(weights @ self.inverse @ weights)))
        if not se >= 0:
            return Contrast(estimate, NAN, NAN, NAN, NAN, NAN, estimable=True)
        half = float(stdtrit(self.df, (1 + level) / 2)) * se
        t = estimate / se if se else NAN
        p = 2 * float(stdtr(self.df, -abs(t)))
        return Contrast(estimate, se, estimate - half, estimate + half, t, p, estimable=True)


def least_squares(x: Floats, y: Floats) -> LeastSquares:
    """The fit of y, shape (n,), on the columns of x, shape (n, p), of any rank."""
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    rank = int((s > s.max() * max(x.shape) * np.finfo(np.float64).eps).sum())
    u, s, vt = u[:, :rank], s[:rank], vt[:rank]
    coefficients = vt.T @ ((u.T @ y) / s)
    residual = y - x @ coefficients
    rss = float(residual @ residual)
    # What is left of an exact fit is rounding, and must not pass for noise.
    if rss <= 1e-24 * float(y @ y):
        rss = 0.0
    return LeastSquares(coefficients, (vt.T / s**2) @ vt, vt.T @ vt, rank, y.size - rank, rss)


def f_test(ss: float, df: int, fit: LeastSquares) -> tuple[float, float]:
    """F = (SS / df) / sigma^2 and its p; NaN where either has no degree of freedom or the fit is exact."""
    if not (df and fit.df and fit.rss > 0):
        return NAN, NAN
    f = (ss / df) / (fit.rss / fit.df)
    return f, float(fdtrc(df, fit.df, f))
