"""Which settings a job's Spark session gets, and who wins."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from jobs.quickstart import main as quickstarted
from jobs.session import DELTA, ESSENTIAL, check_spark_home, local_jars, project_settings, read_properties
from jobs.settings import SourceSettings
from jobs.shown import HIDDEN, shown
from versioned.errors import ConfigurationError

_DEFAULTS = Path(__file__).parents[2] / "conf" / "spark-defaults.conf"


def test_below_spark_submit_its_own_master_jars_and_properties_are_kept() -> None:
    assert project_settings({"PYSPARK_GATEWAY_PORT": "40001"}) == {}


def test_without_spark_submit_the_projects_defaults_apply() -> None:
    settings = project_settings({})
    assert settings["spark.master"] == "local[2]"
    assert read_properties(_DEFAULTS).items() <= settings.items()


@pytest.mark.parametrize(("said", "before"), [("", ""), ("spark.driver.extraJavaOptions -Xss4m\n", "-Xss4m ")])
def test_a_session_of_a_users_program_logs_as_the_commands_do(said: str, before: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(said, encoding="utf-8")
    logging = tmp_path / "conf" / "log4j2.properties"
    logging.touch()
    options = project_settings({}, tmp_path)["spark.driver.extraJavaOptions"]
    assert options == f"{before}-Dlog4j2.configurationFile={logging.as_uri()}"


@pytest.mark.parametrize("name", ["DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE"])
def test_where_the_session_is_set_up_already_nothing_is_set(name: str) -> None:
    assert project_settings({name: "any"}) == {}


def test_an_installed_library_has_what_it_cannot_do_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSIONED_JARS", str(tmp_path))
    settings = project_settings({}, tmp_path)
    assert settings == {"spark.master": "local[2]", **ESSENTIAL, "spark.jars.packages": DELTA}


def _spark_home(folder: Path, *jars: str) -> dict[str, str]:
    (folder / "jars").mkdir()
    for jar in jars:
        (folder / "jars" / jar).touch()
    return {"SPARK_HOME": str(folder)}


def test_another_spark_in_spark_home_is_refused_with_both_versions_and_what_to_do(tmp_path: Path) -> None:
    environment = _spark_home(tmp_path, "spark-core_2.12-3.5.1.jar")
    with pytest.raises(ConfigurationError, match=r"Spark 3\.5\.1,.* is 4\.2\.0:.* Unset SPARK_HOME, or set it to"):
        check_spark_home(environment, "4.2.0")


@pytest.mark.parametrize(
    ("jars", "installed"),
    [
        pytest.param(["spark-core_2.13-4.2.0.jar"], "4.2.0", id="the same"),
        pytest.param(["spark-core_2.13-4.2.0-amzn-1.jar"], "4.2.0", id="a vendor's build of the same"),
        pytest.param(["spark-core_2.13-4.2.0-SNAPSHOT.jar"], "4.2.0.dev0", id="before its release"),
        pytest.param(["spark-sql_2.12-3.5.1.jar"], "4.2.0", id="none that tells"),
        pytest.param([], "4.2.0", id="no jar"),
    ],
)
def test_a_spark_home_of_the_same_spark_or_of_one_that_is_not_told_is_let_be(
    jars: list[str], installed: str, tmp_path: Path
) -> None:
    check_spark_home(_spark_home(tmp_path, *jars), installed)


@pytest.mark.parametrize("environment", [{}, {"SPARK_HOME": ""}, {"SPARK_HOME": "not/there"}])
def test_without_a_folder_in_spark_home_nothing_is_compared(environment: dict[str, str]) -> None:
    check_spark_home(environment, "4.2.0")


def test_spark_home_is_looked_at_where_the_session_is_our_own(tmp_path: Path) -> None:
    environment = _spark_home(tmp_path, "spark-core_2.12-3.5.1.jar")
    with pytest.raises(ConfigurationError, match="SPARK_HOME"):
        project_settings(environment)
    assert project_settings(environment | {"PYSPARK_GATEWAY_PORT": "40001"}) == {}


def test_the_quickstart_looks_at_spark_home_before_it_prepares_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in _spark_home(tmp_path, "spark-core_2.12-3.5.1.jar").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["quickstart.py", "--work", str(tmp_path / "work")])
    with pytest.raises(SystemExit) as ended:
        quickstarted()
    assert (ended.value.code, "SPARK_HOME" in capsys.readouterr().err) == (2, True)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(("name", "value"), ESSENTIAL.items())
def test_the_defaults_hold_what_the_library_cannot_do_without(name: str, value: str) -> None:
    assert read_properties(_DEFAULTS)[name] == value


@pytest.mark.parametrize(
    "name",
    [
        "kafka.ssl.keystore.key",
        "fs.s3a.encryption.key",
        "encryptionKey",
        "clientKey",
        "Authorization",
        "pass",
        "passcode",
        "gcpServiceAccountJson",
        "eventhubs.connectionString",
        "kafka.basic.auth.user.info",
        "kafka.sasl.jaas.config",
        "pulsar.client.authParams",
        "authentication.kerberos.ticket",
        "fs.azure.account.key.x",
    ],
)
def test_what_the_settings_hide_spark_hides_in_its_logs_as_well(name: str) -> None:
    pattern = read_properties(_DEFAULTS)["spark.redaction.regex"]
    assert shown(SourceSettings(format="kafka", options={name: "x"}))["options"] == {name: HIDDEN}
    assert re.search(pattern, name)
    assert not re.search(pattern, "kafka.ssl.keystore.location")


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


def test_the_jars_for_kafka_are_taken_if_they_are_there(tmp_path: Path) -> None:
    for name in ("kafka", "broker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jar").touch()
    (tmp_path / "delta.jar").touch()
    assert local_jars(tmp_path) == f"{tmp_path / 'delta.jar'},{tmp_path / 'kafka' / 'a.jar'}"
