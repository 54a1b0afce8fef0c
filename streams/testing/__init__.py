"""For tests of pipelines: the driver that runs a topology without Spark."""

from __future__ import annotations

from streams.driver.driver import OutputRecord, TopologyTestDriver

__all__ = ["OutputRecord", "TopologyTestDriver"]
