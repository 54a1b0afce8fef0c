"""The contract of a source as settings (``streams.spark.contract.InputContract``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from jobs.strict import Bytes, Flag, Strict, nearest
from streams.options import Action, Extra, TsUnit
from streams.reasons import INVALID


class ContractSettings(Strict):
    """What the rows of a source must look like, and what happens to the others; no row is accepted in part."""

    types: str | None = Field(
        default=None,
        description="Columns as DDL. Each row is cast on its own; one that does not fit is `BAD_TYPE`. Columns that "
        "are not listed here are extra columns.",
    )
    extra_columns: Extra = Field(
        default="ignore",
        description="Columns that `types` does not list: leave them out (`ignore`), or refuse to start (`fail`).",
    )
    max_bytes: Bytes | None = Field(
        default=1 << 20,
        ge=1,
        description="A row with more text and binary content than this is `TOO_LARGE`; `null` = any size.",
    )
    ts_unit: TsUnit | None = Field(
        default=None, description="Unit of an event time column of whole numbers; required for such a column."
    )
    unique: Flag = Field(
        default=False,
        description="Each (partition, sequence) occurs once, and sequences only grow. A record that repeats one, or "
        "goes back, is a `DUPLICATE`.",
    )
    allow_float_keys: Flag = Field(default=False, description="Allow floating-point keys, except in versioned tables.")
    on_invalid: dict[str, Action] = Field(
        default_factory=dict,
        description="What to do with invalid records, by reason: `reject` keeps them in `rejects` (the default), "
        "`drop` only counts them, `fail` ends the batch before any of it is written.",
    )

    @field_validator("max_bytes", mode="before")
    @classmethod
    def _may_be_any(cls, said: Any) -> Any:
        # Environment variables and --set provide only text.
        return None if said == "null" else said

    @field_validator("on_invalid")
    @classmethod
    def _are_reasons(cls, said: dict[str, str]) -> dict[str, str]:
        for reason in said:
            if reason not in INVALID:
                raise ValueError(f'there is no reason "{reason}"{nearest(reason, list(INVALID))}')
        return said
