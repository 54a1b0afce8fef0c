"""Tables that are not an application's to write: its sources, and what was made by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from streams import Materialized, StreamsBuilder
from streams.spark import SparkSource, StreamingApplication, own_sources
from streams.spark.doctor import examine
from streams.spark.own_sources import check_own_sources, refuse_own_sources
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable


def _application(spark: SparkSession, root: str, source: SparkSource, **options: Any) -> StreamingApplication:
    """Prices as they come, stored as the plain table "prices", and told."""
    builder = StreamsBuilder()
    builder.table("prices", Materialized.key_value(), key="item", value="price").to_changelog("told")
    return StreamingApplication(spark, "shop", builder.build(), root, {"prices": source}, **options)


_HERE = os.getcwd()


@pytest.mark.parametrize(
    ("root", "source"),
    [
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/prices"}), id="a store"),
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/told"}), id="a sink"),
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/ledger"}), id="the ledger"),
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/rejects"}), id="the rejects"),
        pytest.param("/data/out", SparkSource("parquet", {"Path": "/data/out/prices"}), id="files of a table"),
        pytest.param("/data/out/", SparkSource("delta", {"path": "/data//out/./prices/"}), id="slashes"),
        pytest.param("/data/out", SparkSource("delta", {"path": "file:///data/out/prices"}), id="a scheme"),
        pytest.param("file:/data/out", SparkSource("delta", {"path": "/data/out/prices"}), id="a scheme of the root"),
        pytest.param("./out", SparkSource("delta", {"path": f"{_HERE}/out/prices"}), id="a relative root"),
        pytest.param(f"{_HERE}/out", SparkSource("delta", {"path": "out/prices"}), id="a relative path"),
        pytest.param("s3a://bucket/out", SparkSource("delta", {"path": "s3a://bucket/out//prices/"}), id="an address"),
        pytest.param("main.shop", SparkSource(table="main.shop.prices"), id="a name"),
        pytest.param("main.shop", SparkSource(table="`Main`.shop.PRICES"), id="a name in another case"),
    ],
)
def test_a_source_that_is_a_table_of_the_application_is_refused_without_a_session(
    root: str, source: SparkSource
) -> None:
    told = r'Source "prices" reads .* of the application itself: .* another root, or the step'
    with pytest.raises(ConfigurationError, match=told):
        _application(Mock(), root, source, checkpoint="/data/checkpoint")


@pytest.mark.parametrize(
    ("root", "source"),
    [
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/in/prices"}), id="another folder"),
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/orders"}), id="another table of the root"),
        pytest.param("/data/out", SparkSource("delta", {"path": "/data/out/Prices"}), id="a path in another case"),
        pytest.param("s3a://a/out", SparkSource("delta", {"path": "s3a://b/out/prices"}), id="another bucket"),
        pytest.param("/data/out", SparkSource(table="out.prices"), id="a name, which is no path"),
        pytest.param("main.shop", SparkSource(table="dev.shop.prices"), id="a table of another catalog"),
        pytest.param("/data/out", SparkSource("kafka", {"subscribe": "prices"}), id="no table"),
        pytest.param("/data/out", SparkSource("json", {"path": "/data/\0"}, "item STRING"), id="no path"),
    ],
)
def test_a_source_that_lies_elsewhere_is_taken(root: str, source: SparkSource) -> None:
    check_own_sources({"prices": source}, [TableRef.parse(root).child(name) for name in ("ledger", "prices", "told")])


def test_a_link_to_a_table_is_that_table(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    source = SparkSource("delta", {"path": f"{tmp_path}/link/prices"})
    with pytest.raises(ConfigurationError, match=r"which is the table .*/out/prices of the application itself"):
        check_own_sources({"prices": source}, [TableRef.parse(f"{tmp_path}/out/prices")])


@pytest.mark.parametrize(
    ("source", "looked"),
    [
        pytest.param(SparkSource("delta", {"path": "/data/in"}), False, id="paths tell it"),
        pytest.param(SparkSource("json", {"path": "dbfs:/data/in"}, "item STRING"), False, id="no table"),
        pytest.param(SparkSource("delta", {"path": "dbfs:/data/in"}), True, id="paths of other schemes"),
        pytest.param(SparkSource(table="shop.prices"), True, id="a name"),
    ],
)
def test_only_of_a_source_of_which_paths_and_names_do_not_tell_it_the_place_is_looked_up(
    source: SparkSource, looked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = Mock(return_value=None)
    monkeypatch.setattr(own_sources, "detail_of", detail)
    refuse_own_sources(Mock(), {"prices": source}, {TableRef.parse("/data/out/prices"): "file:/data/out/prices"})
    assert detail.called is looked
    detail.reset_mock()
    refuse_own_sources(Mock(), {"prices": source}, {})
    assert not detail.called


def test_a_source_whose_place_cannot_be_told_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sources, "detail_of", Mock(side_effect=RuntimeError("a view")))
    refuse_own_sources(Mock(), {"prices": SparkSource(table="shop.view")}, {TableRef.parse("/t/prices"): "file:/t"})


def test_a_source_that_is_an_own_table_under_another_name_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS owned")
    try:
        prices = VersionedTable.create(
            spark, "owned.prices", "item STRING, price DOUBLE", keys="item", history_retention="1 day"
        )
        place = spark.sql("DESCRIBE DETAIL owned.prices").collect()[0]["location"]
        for root, source in (
            ("owned", SparkSource("delta", {"path": place})),
            ("owned", SparkSource(table="spark_catalog.owned.prices")),
            (place.rsplit("/", 1)[0], SparkSource(table="owned.prices")),
        ):
            shop = _application(spark, root, source, checkpoint=f"{tmp_path}/checkpoint", new_epoch="/" in root)
            with pytest.raises(ConfigurationError, match=r"which is the table .* of the application itself"):
                shop.start()
        assert prices.rows().count() == 0
        there = spark.sql("SHOW TABLES IN owned").where("NOT isTemporary")
        assert [row["tableName"] for row in there.collect()] == ["prices"]
    finally:
        spark.sql("DROP DATABASE owned CASCADE")


def test_a_table_with_rows_that_was_made_by_hand_is_no_store_until_it_is_said_to_be_a_copy(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    source = SparkSource("json", {"path": f"{tmp_path}/in"}, "item STRING, price DOUBLE, ts TIMESTAMP")
    made = f"delta.`{tmp_path}/out/prices`"
    spark.sql(f"CREATE TABLE {made} USING DELTA AS SELECT 'tea' AS item, TIMESTAMP '2030-01-01' AS ts, 7D AS price")
    shop = _application(spark, f"{tmp_path}/out", source)
    with pytest.raises(ConfigurationError, match=r"prices has rows, and neither .*Nothing was written") as refused:
        shop.start()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["prices"]
    spark.sql(f"ALTER TABLE {made} SET TBLPROPERTIES ('versioned.copied' = 'true')")
    assert "SET TBLPROPERTIES ('versioned.copied' = 'true')" in str(refused.value)
    assert "table-by-hand" not in [found.rule for found in examine(shop).findings]
