# Databricks notebook source
# MAGIC %md
# MAGIC # Quickstart: a table that knows what was valid when
# MAGIC Prices change, and some changes are reported late. Each order must get the price that was valid when it was
# MAGIC made.
# MAGIC
# MAGIC This notebook needs no input files. It runs on Databricks, in Jupyter, and as a script with `python`.

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import tempfile
from datetime import datetime

from jobs.session import build_session
from versioned import VersionedTable

# A notebook already has `spark`; a script starts a local session. `work` can be any folder, such as one in a volume.
spark = globals().get("spark") or build_session("quickstart")
work = globals().get("work") or tempfile.mkdtemp()
show_html = globals().get("displayHTML", lambda html: None)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Create a table and put changes into it
# MAGIC `history_retention` is measured back from the newest change. It limits how far back versions can be looked up,
# MAGIC and how late a change may be.

# COMMAND ----------

prices = VersionedTable.create(
    spark, f"{work}/prices", "item STRING, price DOUBLE", keys="item", history_retention="30 days"
)
changes = spark.sql("""
    SELECT * FROM VALUES
        ('tea', 10.0D, TIMESTAMP '2026-01-01'), ('tea', 12.0D, TIMESTAMP '2026-01-05'),
        ('oil', 7.0D, TIMESTAMP '2026-01-02') AS t(item, price, ts)
""")
first = prices.put(changes)
print(first.counts)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A change arrives late
# MAGIC From 3 January, tea cost 11, but we learn of it only after the price of 5 January. The late version ends where
# MAGIC the next one begins; the current price stays 12.

# COMMAND ----------

late = prices.put(spark.sql("SELECT 'tea' AS item, 11.0D AS price, TIMESTAMP '2026-01-03' AS ts"))
print(late.counts)
prices.history().select("item", "price", "validFrom", "validTo").orderBy("item", "validFrom").show()

# COMMAND ----------

timeline = prices.timeline(spark.sql("SELECT DISTINCT item FROM VALUES ('tea'), ('oil') AS t(item)"))
show_html(timeline.to_html())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Query: now, at an instant, and row by row

# COMMAND ----------

prices.current().select("item", "price", "validFrom").show()
prices.as_of(datetime(2026, 1, 4)).select("item", "price").show()

orders = spark.sql("""
    SELECT * FROM VALUES
        (1, 'tea', TIMESTAMP '2026-01-02'), (2, 'tea', TIMESTAMP '2026-01-04'), (3, 'rum', TIMESTAMP '2026-01-04')
    AS t(order, item, ordered)
""")
answers = prices.lookup(orders, at="ordered").select("order", "item", "price", "reason").orderBy("order")
answers.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same in SQL

# COMMAND ----------

prices.register_sql("prices")
in_sql = spark.sql("SELECT item, price FROM prices_as_of(TIMESTAMP '2026-01-04') ORDER BY item")
in_sql.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Check the table
# MAGIC `verify` reads every row and checks the table's invariants: for example, intervals of a key neither overlap nor
# MAGIC leave gaps.

# COMMAND ----------

report = prices.verify()
print(report.rows, "rows, sound:", report.is_sound)
