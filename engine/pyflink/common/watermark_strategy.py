"""Timestamps and watermarks, as pyflink.common.watermark_strategy names them."""

from penstock.operators.common.time import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    WatermarkStrategy,
)

__all__ = ["AssignerWithPeriodicWatermarksWrapper", "TimestampAssigner", "WatermarkStrategy"]
