# Databricks notebook source
# MAGIC %md
# MAGIC # A bitemporal audit
# MAGIC Two questions about one contract, and two axes of time:
# MAGIC
# MAGIC * *valid time*: what rate applied on 15 March? (`validFrom`, `validTo`)
# MAGIC * *system time*: what did we believe about it when we wrote the bill? (Delta's own versions)

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import tempfile

from jobs.session import build_session
from versioned import VersionedTable

# A notebook has `spark` already; a script starts a local session. `work` is any folder, for example of a volume.
spark = globals().get("spark") or build_session("audit")
work = globals().get("work") or tempfile.mkdtemp()

# COMMAND ----------

# MAGIC %md
# MAGIC ## What came in, and when
# MAGIC April's load brings the rate of 1 March. May's load brings one of 1 May. June's load brings a correction: from
# MAGIC 10 March on the rate was another one.

# COMMAND ----------

path = f"{work}/rates"
rates = VersionedTable.create(
    spark, path, "contract STRING, rate DECIMAL(6, 3)", keys="contract", history_retention="365 days"
)


def newest_version() -> int:
    """Delta's version of the table now: a point on the axis of system time."""
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]["version"]


loads = {
    "April": "SELECT 'C-1' AS contract, 4.250 AS rate, TIMESTAMP '2026-03-01' AS ts",
    "May": "SELECT 'C-1' AS contract, 4.500 AS rate, TIMESTAMP '2026-05-01' AS ts",
    "June": "SELECT 'C-1' AS contract, 4.750 AS rate, TIMESTAMP '2026-03-10' AS ts",
}
known_at = {}
for load, query in loads.items():
    rates.put(spark.sql(query))
    known_at[load] = newest_version()
print(known_at)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The history as it is known now

# COMMAND ----------

rates.history().select("rate", "validFrom", "validTo").orderBy("validFrom").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## One instant of valid time, seen from each load
# MAGIC The bill for 15 March was written after May's load. It was right as far as was known then; June's load
# MAGIC changed what is known about March. Neither fact is lost.

# COMMAND ----------

believed = {}
for load, version in known_at.items():
    rows = spark.sql(f"""
        SELECT rate FROM delta.`{path}` VERSION AS OF {version}
        WHERE contract = 'C-1' AND NOT deleted AND validFrom <= TIMESTAMP '2026-03-15'
          AND (validTo IS NULL OR validTo > TIMESTAMP '2026-03-15')
    """)
    believed[load] = str(rows.collect()[0]["rate"])
print(believed)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What did a load change?
# MAGIC The versions before and after it, side by side: one interval was split.

# COMMAND ----------

seen = "SELECT contract, rate, validFrom, validTo FROM delta.`{}` VERSION AS OF {}"
before, after = (spark.sql(seen.format(path, known_at[load])) for load in ("May", "June"))
gone, came = before.exceptAll(after), after.exceptAll(before)
gone.orderBy("validFrom").show()
came.orderBy("validFrom").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Who wrote it
# MAGIC Every commit of the library says what it was; Delta adds when.

# COMMAND ----------

commits = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "timestamp", "operation")
commits.show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC `purge` removes versions older than the history retention, `vacuum` the files of old Delta versions. How far
# MAGIC back an audit can go on each axis is decided there.
