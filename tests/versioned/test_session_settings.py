"""Settings of several writes at the same time: the last write of a session puts them back, whatever stands for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from versioned.session_settings import SharedSetting, are_one

_NAME, _OURS = "spark.sql.some.setting", "ours"


@dataclass
class _Conf:
    """What a session of the JVM has set."""

    said: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str | None) -> str | None:
        return self.said.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.said[name] = value

    def unset(self, name: str) -> None:
        self.said.pop(name, None)


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
        def get(self, name: str, default: str | None) -> str | None:
            if name != _NAME:
                raise RuntimeError("SESSION_CLOSED")
            return default

    conf = _Conf()
    with setting.of(_Session(Over())), setting.of(_Session(conf)):
        assert conf.said == {_NAME: _OURS}
    assert conf.said == {}


def test_spark_tells_another_object_of_a_session_from_another_session(spark: SparkSession) -> None:
    same = SparkSession(spark.sparkContext, spark._jsparkSession)
    assert (are_one(spark, same), are_one(spark, spark.newSession())) == (True, False)
