"""The figures of the overview."""

from __future__ import annotations

from ssa_operator.operator.metrics import Metrics
from ssa_operator.web.overview import INTERVAL, SAMPLES, FigureSamples


def test_figures_are_differences_of_the_counters() -> None:
    metrics, samples = Metrics(), FigureSamples()
    samples.take(metrics, 3)
    metrics.reconciles.labels("echoes.example.com", "ok").inc(5)
    metrics.reconciles.labels("echoes.example.com", "error").inc()
    samples.take(metrics, 0)
    figures = samples.figures()
    assert figures.reconciles == (6 * 60 / INTERVAL,)
    assert figures.errors == (60 / INTERVAL,)
    assert figures.queue == (3, 0)


def test_the_oldest_samples_are_dropped() -> None:
    metrics, samples = Metrics(), FigureSamples()
    for waiting in range(2 * SAMPLES):
        samples.take(metrics, waiting)
    assert samples.figures().queue == tuple(range(SAMPLES, 2 * SAMPLES))
