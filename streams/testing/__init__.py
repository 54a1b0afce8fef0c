"""For tests of pipelines: a driver that runs a topology without Spark."""

from __future__ import annotations

from streams.driver.driver import OutputRecord, TopologyTestDriver
from streams.driver.processor import Reject
from streams.driver.store_view import StoreView

__all__ = ["OutputRecord", "Reject", "StoreView", "TopologyTestDriver"]
