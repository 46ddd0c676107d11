"""A sweep's keys to test with."""

from __future__ import annotations

from typing import Any

from benchrack.vocabulary.datasets import SplitRequest
from benchrack.vocabulary.settings import Measuring, Settings


def make_settings(others: Settings | None = None, /, **keys: Any) -> Settings:
    """Settings with these keys, the others being as they were, or as they are by default."""
    return (others or Settings()).having(**keys)


def make_measuring(**keys: Any) -> Measuring:
    """Those of how a case is measured."""
    return Settings.of(**keys).measure


def make_request(**keys: Any) -> SplitRequest:
    """What a data set is told with these settings."""
    settings = make_settings(**keys)
    return SplitRequest(seed=settings.measure.seed, calibration_images=settings.calibrate.images)
