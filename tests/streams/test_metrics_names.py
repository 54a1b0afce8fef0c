"""The metrics of KIP-328: names, levels, groups and tags, letter by letter, and what they count."""

from __future__ import annotations

import pytest

from streams.metrics import KIP_328, MetricValue, NodeMetrics

NODE = ("stream-processor-node-metrics", ("client-id", "task-id", "processor-node-id"))
STATE = ("stream-window-state-metrics", ("client-id", "task-id", "window-state-id"))
BUFFER = ("stream-buffer-metrics", ("client-id", "task-id", "buffer-id"))

METRICS = [
    pytest.param("record-lateness-avg", "DEBUG", NODE, marks=pytest.mark.rule("R63")),
    pytest.param("record-lateness-max", "DEBUG", NODE, marks=pytest.mark.rule("R64")),
    pytest.param("late-record-drop-rate", "INFO", NODE, marks=pytest.mark.rule("R65")),
    pytest.param("late-record-drop-total", "INFO", NODE, marks=pytest.mark.rule("R66")),
    pytest.param("expired-window-record-drop-rate", "INFO", STATE, marks=pytest.mark.rule("R67")),
    pytest.param("expired-window-record-drop-total", "INFO", STATE, marks=pytest.mark.rule("R68")),
    pytest.param("suppression-buffer-size-current", "DEBUG", BUFFER, marks=pytest.mark.rule("R69")),
    pytest.param("suppression-buffer-size-avg", "DEBUG", BUFFER, marks=pytest.mark.rule("R70")),
    pytest.param("suppression-buffer-size-max", "DEBUG", BUFFER, marks=pytest.mark.rule("R71")),
    pytest.param("suppression-buffer-count-current", "DEBUG", BUFFER, marks=pytest.mark.rule("R72")),
    pytest.param("suppression-buffer-count-avg", "DEBUG", BUFFER, marks=pytest.mark.rule("R73")),
    pytest.param("suppression-buffer-count-max", "DEBUG", BUFFER, marks=pytest.mark.rule("R74")),
    pytest.param("suppression-emit-rate", "DEBUG", NODE, marks=pytest.mark.rule("R75")),
    pytest.param("suppression-emit-total", "DEBUG", NODE, marks=pytest.mark.rule("R76")),
    pytest.param("intermediate-result-suppression-overtime-min", "INFO", NODE, marks=pytest.mark.rule("R77")),
    pytest.param("intermediate-result-suppression-overtime-avg", "INFO", NODE, marks=pytest.mark.rule("R78")),
]


def reading(metrics: NodeMetrics, name: str, now_us: int | None = None) -> MetricValue:
    (value,) = (value for value in metrics.report(now_us) if value.name == name)
    return value


@pytest.mark.parametrize(("name", "level", "place"), METRICS)
def test_a_metric_has_the_name_level_group_and_tags_of_kip_328(
    name: str, level: str, place: tuple[str, tuple[str, ...]]
) -> None:
    value = reading(NodeMetrics("hourly", store_type="window"), name)
    assert (value.level, value.group, tuple(value.tags)) == (level, *place)


def test_there_is_no_other_metric_under_a_name_of_kip_328() -> None:
    assert sorted(metric.name for metric in KIP_328) == sorted(str(param.values[0]) for param in METRICS)


@pytest.mark.rule("R61")
def test_metrics_are_told_apart_by_their_node() -> None:
    values = [reading(NodeMetrics(node), "late-record-drop-total") for node in ("a", "b")]
    assert [value.tags["processor-node-id"] for value in values] == ["a", "b"]


def test_a_state_metric_names_its_store_and_the_kind_of_store() -> None:
    value = reading(NodeMetrics("n", store="visits", store_type="session"), "expired-window-record-drop-total")
    assert (value.group, value.tags["session-state-id"]) == ("stream-session-state-metrics", "visits")


@pytest.mark.rule("R67", "R68")
def test_a_node_without_a_store_of_windows_has_no_state_metrics() -> None:
    assert {value.group for value in NodeMetrics("n").report()} == {BUFFER[0], NODE[0]}


@pytest.mark.rule("R62")
def test_late_expired_skipped_and_suppressed_are_four_counts() -> None:
    metrics = NodeMetrics("n", store_type="window")
    for number, counter in enumerate(("late", "expired", "skipped", "suppressed"), start=1):
        metrics.count(counter, number)
    names = ("late-record-drop", "expired-window-record-drop", "skipped-records", "suppressed-records")
    assert [reading(metrics, f"{name}-total").value for name in names] == [1, 2, 3, 4]


@pytest.mark.rule("R63", "R64")
def test_lateness_is_in_milliseconds_over_all_records() -> None:
    metrics = NodeMetrics("n")
    for lateness_us in (0, 0, 3_000, 9_000):
        metrics.observe_lateness(lateness_us)
    assert [reading(metrics, f"record-lateness-{part}").value for part in ("avg", "max")] == [3.0, 9.0]


@pytest.mark.rule("R77", "R78")
def test_overtime_is_the_wait_minus_the_observed_lateness() -> None:
    metrics = NodeMetrics("n")
    metrics.wait_us = 10_000
    for lateness_us in (0, 4_000):
        metrics.observe_lateness(lateness_us)
    name = "intermediate-result-suppression-overtime"
    assert [reading(metrics, f"{name}-{part}").value for part in ("min", "avg")] == [6.0, 8.0]


@pytest.mark.rule("R69", "R70", "R71", "R72", "R73", "R74")
def test_the_buffer_gauges_keep_the_last_the_mean_and_the_largest_value() -> None:
    metrics = NodeMetrics("n")
    for size, records in ((100, 1), (300, 3), (200, 2)):
        metrics.observe_buffer(size, records)
    parts = ("current", "avg", "max")
    assert [reading(metrics, f"suppression-buffer-size-{part}").value for part in parts] == [200, 200.0, 300]
    assert [reading(metrics, f"suppression-buffer-count-{part}").value for part in parts] == [2, 2.0, 3]


def test_a_rate_is_the_count_since_the_previous_report_per_second() -> None:
    metrics = NodeMetrics("n")
    metrics.count("late", 7)
    assert reading(metrics, "late-record-drop-rate", now_us=0).value is None
    metrics.count("late", 10)
    assert reading(metrics, "late-record-drop-rate", now_us=4_000_000).value == 2.5


def test_nothing_measured_is_no_value_and_not_zero() -> None:
    metrics = NodeMetrics("n")
    names = ("record-lateness-max", "suppression-buffer-size-current", "intermediate-result-suppression-overtime-min")
    assert [reading(metrics, name).value for name in names] == [None, None, None]
