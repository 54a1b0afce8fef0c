"""Which settings a job's Spark session gets, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.session import local_jars, project_settings, read_properties

_DEFAULTS = Path(__file__).parents[2] / "conf" / "spark-defaults.conf"


def test_below_spark_submit_its_own_master_jars_and_properties_are_kept() -> None:
    assert project_settings({"PYSPARK_GATEWAY_PORT": "40001"}) == {}


def test_without_spark_submit_the_projects_defaults_apply() -> None:
    settings = project_settings({})
    assert settings["spark.master"] == "local[2]"
    assert read_properties(_DEFAULTS).items() <= settings.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.legacy.parameterSubstitution.constantsOnly", "true"),
    ],
)
def test_the_defaults_hold_what_the_library_cannot_do_without(name: str, value: str) -> None:
    assert read_properties(_DEFAULTS)[name] == value


def test_comments_and_empty_lines_of_a_properties_file_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "some.conf"
    file.write_text("# told\n\n  spark.a   1 2  \n", encoding="utf-8")
    assert read_properties(file) == {"spark.a": "1 2"}


def test_jars_are_named_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).touch()
    assert local_jars(tmp_path) == f"{tmp_path / 'a.jar'},{tmp_path / 'b.jar'}"


def test_without_jars_none_are_named(tmp_path: Path) -> None:
    assert local_jars(tmp_path) == ""
