"""What a source promises of its rows, as settings (``streams.spark.contract.InputContract``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from jobs.strict import Bytes, Flag, Strict, nearest
from streams.options import Action, Extra, TsUnit
from streams.reasons import INVALID


class ContractSettings(Strict):
    """What the rows of a source are like, and what becomes of those that are not: never taken half."""

    types: str | None = Field(
        default=None,
        description="Columns as DDL. Each row is cast on its own; one that does not fit is `BAD_TYPE`. Other columns "
        "are extra.",
    )
    extra_columns: Extra = Field(
        default="ignore", description="Leave columns out that `types` does not name, or refuse to start."
    )
    max_bytes: Bytes | None = Field(
        default=1 << 20, ge=1, description="A row with more text and binary content is `TOO_LARGE`; `null` = any size."
    )
    ts_unit: TsUnit | None = Field(
        default=None, description="What a whole number means as event time; needed if the column is one."
    )
    unique: Flag = Field(
        default=False,
        description="A (partition, sequence) comes only once, and sequences only grow: a second one is a `DUPLICATE`.",
    )
    allow_float_keys: Flag = Field(
        default=False, description="Keys may be floating-point numbers, but not in tables with versions."
    )
    on_invalid: dict[str, Action] = Field(
        default_factory=dict,
        description="What becomes of invalid records, by reason: kept in `rejects` (as long as nothing is said), only "
        "counted, or the batch ends before anything of it is written.",
    )

    @field_validator("max_bytes", mode="before")
    @classmethod
    def _may_be_any(cls, said: Any) -> Any:
        # A variable of the environment and --set give text.
        return None if said == "null" else said

    @field_validator("on_invalid")
    @classmethod
    def _are_reasons(cls, said: dict[str, str]) -> dict[str, str]:
        for reason in said:
            if reason not in INVALID:
                raise ValueError(f'there is no reason "{reason}"{nearest(reason, list(INVALID))}')
        return said
