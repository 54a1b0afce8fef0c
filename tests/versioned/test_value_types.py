"""Values of every type that Delta stores come out as they went in, also where a late record comes before them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from versioned.table import VersionedTable

#: Type -> an expression of it that differs with the record's number ``n``.
_VALUES: Final = {
    "STRUCT<a: INT, b: STRUCT<c: STRING>>": "named_struct('a', INT(n), 'b', named_struct('c', IF(n = 2, NULL, 'x')))",
    "ARRAY<INT>": "array(INT(n), NULL)",
    "MAP<STRING, INT>": "map('n', INT(n), 'none', NULL)",
    "BINARY": "IF(n = 2, X'', X'00FF')",
    "DECIMAL(38, 18)": "CAST(n AS DECIMAL(38, 18)) / 3",
    "DOUBLE": "IF(n = 2, DOUBLE('NaN'), -0.0D)",
    "DATE": "date_add(DATE '0001-01-01', n)",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '9999-12-31 23:59:59' - make_dt_interval(n)",
    "BOOLEAN": "n = 2",
    "VARIANT": "parse_json(concat('{\"n\": [', n, ', null]}'))",
}
_NAMES: Final = [f"v{number}" for number in range(len(_VALUES))]


def test_values_of_every_type_come_out_as_they_went_in(spark: SparkSession, tmp_path: Path) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(_NAMES, _VALUES, strict=True))
    table = VersionedTable.create(
        spark, f"{tmp_path}/all_types", f"k STRING, {columns}", keys="k", history_retention="1 day"
    )
    values = [F.expr(said).cast(kind).alias(name) for name, (kind, said) in zip(_NAMES, _VALUES.items(), strict=True)]
    late_last = [
        spark.range(number, number + 1, 1, 1).selectExpr("INT(id) AS n").select(
            F.lit("a").alias("k"), F.timestamp_seconds("n").alias("ts"), *values
        )
        for number in (2, 1)
    ]  # fmt: skip
    for records in late_last:
        assert table.put(records).counts.accepted == 1
    text = F.to_json(F.struct(*_NAMES)).alias("text")
    wanted = [row["text"] for records in reversed(late_last) for row in records.select(text).collect()]
    stored = table.rows().orderBy("validFrom").select(text).collect()
    assert [row["text"] for row in stored] == wanted
    assert len(set(wanted)) == len(wanted)
