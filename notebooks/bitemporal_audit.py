# Databricks notebook source
# MAGIC %md
# MAGIC # A bitemporal audit
# MAGIC Two questions about one contract, one for each axis of time:
# MAGIC
# MAGIC * *valid time*: which rate applied on 15 March? (`validFrom`, `validTo`)
# MAGIC * *system time*: which rate did we believe applied when we wrote the bill? (Delta's own versions)

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import tempfile

from jobs.session import build_session
from versioned import VersionedTable

# A notebook already has `spark`; a script starts a local session. `work` can be any folder, such as one in a volume.
spark = globals().get("spark") or build_session("audit")
work = globals().get("work") or tempfile.mkdtemp()

# COMMAND ----------

# MAGIC %md
# MAGIC ## What came in, and when
# MAGIC April's load brings the rate that is valid from 1 March, May's load the one from 1 May. June's load brings a
# MAGIC correction: from 10 March on, a different rate applied.

# COMMAND ----------

path = f"{work}/rates"
rates = VersionedTable.create(
    spark, path, "contract STRING, rate DECIMAL(6, 3)", keys="contract", history_retention="365 days"
)


def newest_version() -> int:
    """The table's newest Delta version: a point on the axis of system time."""
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
# MAGIC ## The history as we know it now

# COMMAND ----------

rates.history().select("rate", "validFrom", "validTo").orderBy("validFrom").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## One instant of valid time, seen from each load
# MAGIC The bill for 15 March was written after May's load. It was right, given what was known then. June's load changed
# MAGIC what is known about March. Both states of knowledge can still be queried.

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
# MAGIC Compare the versions before and after June's load: one interval was split into two.

# COMMAND ----------

seen = "SELECT contract, rate, validFrom, validTo FROM delta.`{}` VERSION AS OF {}"
before, after = (spark.sql(seen.format(path, known_at[load])) for load in ("May", "June"))
gone, came = before.exceptAll(after), after.exceptAll(before)
gone.orderBy("validFrom").show()
came.orderBy("validFrom").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Who wrote it
# MAGIC Each commit of the library records what it did; Delta records when.

# COMMAND ----------

commits = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "timestamp", "operation")
commits.show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC Maintenance limits how far back an audit can go on each axis. `purge` removes versions older than the history
# MAGIC retention (valid time); `vacuum` removes the files of old Delta versions (system time).
