"""Settings of several writes at the same time: the last write of a session puts them back, whatever stands for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.making import make_table
from versioned.session_settings import (
    MISSING_FILES,
    SOUND_READS,
    SOUND_TEXTS,
    TIME_TEXTS,
    UNIONS,
    SessionLock,
    SharedSetting,
    are_one,
    is_east,
    session_settings,
    with_sound_reads,
    with_sound_texts,
)

_NAME, _OURS = "spark.sql.some.setting", "ours"


@dataclass
class _Conf:
    """What a session of the JVM has set."""

    said: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.said.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.said[name] = value

    def unset(self, name: str) -> None:
        self.said.pop(name, None)


class _BarsAll(_Conf):
    """What a session has set that lets nothing be set."""

    def set(self, name: str, value: str) -> None:
        raise RuntimeError(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.\nJVM stacktrace: ...")


@dataclass(eq=False)
class _Session:
    """One of the objects that stand for it."""

    conf: _Conf


@pytest.fixture
def setting() -> Any:
    return SharedSetting(_NAME, _OURS)


@pytest.mark.parametrize("former", [{}, {_NAME: "the user's"}, {_NAME: _OURS}], ids=["none", "another", "the same"])
def test_it_stays_set_until_the_last_write_of_the_session_whichever_object_that_has(
    setting: Any, former: dict[str, str]
) -> None:
    conf = _Conf(dict(former))
    first, second = setting.of(_Session(conf)), setting.of(_Session(conf))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert conf.said == {_NAME: _OURS}
    second.__exit__(None, None, None)
    assert conf.said == former


def test_a_clone_of_a_session_that_writes_gets_the_setting_by_itself(setting: Any) -> None:
    conf, clone = _Conf(), _Conf()
    with setting.of(_Session(conf)):
        with setting.of(_Session(clone)):
            assert clone.said == {_NAME: _OURS}
        assert (conf.said, clone.said) == ({_NAME: _OURS}, {})


def test_a_session_that_is_over_stops_no_write_of_another(setting: Any) -> None:
    class Over(_Conf):
        def get(self, name: str, default: str | None = None) -> str | None:
            if name != _NAME:
                raise RuntimeError("SESSION_CLOSED")
            return default

    conf = _Conf()
    with setting.of(_Session(Over())), setting.of(_Session(conf)):
        assert conf.said == {_NAME: _OURS}
    assert conf.said == {}


def test_of_settings_that_cannot_all_be_set_none_stays_behind() -> None:
    class Barred(_Conf):
        def set(self, name: str, value: str) -> None:
            if name == "barred":
                raise RuntimeError("CANNOT_MODIFY_CONFIG")
            super().set(name, value)

    conf = Barred({_NAME: "the user's"})
    with (
        pytest.raises(RuntimeError, match="CANNOT_MODIFY"),
        session_settings(_Session(conf), {_NAME: _OURS, "new": "1", "barred": "2", "never": "3"}),  # type: ignore[arg-type]
    ):
        raise AssertionError("the block ran without its settings")
    assert conf.said == {_NAME: "the user's"}


@pytest.mark.parametrize(("is_other", "waits"), [(False, True), (True, False)], ids=["the same", "another"])
def test_what_must_be_alone_in_a_session_waits_for_that_session_only_whichever_object_it_has(
    is_other: bool, waits: bool
) -> None:
    lock: Any = SessionLock()
    conf, is_in = _Conf(), Event()
    second = _Session(_Conf() if is_other else conf)

    def enter() -> None:
        with lock.of(second):
            is_in.set()

    with ThreadPoolExecutor(1) as pool:
        with lock.of(_Session(conf)), lock.of(_Session(conf)):
            entered = pool.submit(enter)
            assert is_in.wait(0.3 if waits else 10) is not waits
        entered.result(10)
    assert conf.said == {}


@pytest.mark.parametrize(
    ("kind", "zone", "is_refused"),
    [
        ("TIMESTAMP_NTZ", "Asia/Tokyo", True),
        ("TIMESTAMP_NTZ", "+14:00", True),
        ("TIMESTAMP_NTZ", "JST", True),
        ("TIMESTAMP_NTZ", "PST", False),
        ("TIMESTAMP_NTZ", "UTC", False),
        ("TIMESTAMP_LTZ", "Asia/Tokyo", False),
    ],
)
def test_local_instants_in_a_zone_where_delta_cannot_compare_them_are_refused(
    kind: str, zone: str, is_refused: bool
) -> None:
    conf = _Conf({"spark.sql.timestampType": kind, "spark.sql.session.timeZone": zone})
    told = pytest.raises(ConfigurationError, match=f"in the time zone .*{zone[-4:]}, east of UTC")
    with told if is_refused else nullcontext():
        with_sound_reads(_Session(conf))  # type: ignore[arg-type]


def test_the_short_names_of_zones_that_spark_takes_are_as_far_east_as_the_zones(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    zones = dict(jvm.java.time.ZoneId.SHORT_IDS)
    with session_settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        for name in zones:
            spark.conf.set("spark.sql.session.timeZone", name)
    assert {name: is_east(name) for name in zones} == {name: is_east(zone) for name, zone in zones.items()}


def test_spark_tells_another_object_of_a_session_from_another_session(spark: SparkSession) -> None:
    same = SparkSession(spark.sparkContext, spark._jsparkSession)
    assert (are_one(spark, same), are_one(spark, spark.newSession())) == (True, False)


@pytest.mark.parametrize("said", [{}, {UNIONS: "true"}, {UNIONS: "false"}, {MISSING_FILES: "true"}])
def test_reads_are_sound_whatever_the_session_says(said: dict[str, str]) -> None:
    session: Any = _Session(_Conf(dict(said)))
    with_sound_reads(session)
    assert session.conf.said == SOUND_READS


@pytest.mark.parametrize("said", [{}, {TIME_TEXTS: "LEGACY"}, {TIME_TEXTS: "EXCEPTION"}])
def test_texts_are_read_by_sound_rules_whatever_the_session_says(said: dict[str, str]) -> None:
    session: Any = _Session(_Conf(dict(said)))
    with_sound_texts(session)
    assert session.conf.said == SOUND_TEXTS


def test_a_session_that_refuses_a_setting_is_told_so_before_a_table_is_made() -> None:
    """As serverless compute does: a table that was made first would be in the way of the next try."""
    conf, made = _BarsAll(), []
    session: Any = SimpleNamespace(conf=conf, sql=made.append)
    with pytest.raises(ConfigurationError, match=rf"refuses {UNIONS} = false.*CONFIG_NOT_AVAILABLE.*classic compute"):
        make_table(session, TableRef.parse("/t/prices"), "CREATE TABLE delta.`/t/prices` (k STRING) USING DELTA")
    assert made == []


def test_a_setting_that_is_sound_by_default_is_not_touched(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.unset(MISSING_FILES)
    with_sound_reads(session)
    assert (session.conf.get(MISSING_FILES, None), session.conf.get(MISSING_FILES)) == (None, "false")
