"""Settings as people read them: effective values, durations in words, secrets left out."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel

from streams.describe import span

HIDDEN: Final = "***"
_SECRET: Final = re.compile(
    r"password|passwd|secret|token|credential|access.?key|account.?key|api.?key|private.?key|jaas|\bsas\b|sas.?key",
    re.I,
)
#: ``user:password@`` in an address.
_LOGIN: Final = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def shown(settings: Any) -> Any:
    """Plain values for YAML or JSON; what is not set is left out, and secrets of a source's options are hidden.

    >>> from jobs.settings import SourceSettings
    >>> shown(SourceSettings(format="kafka", options={"kafka.sasl.password": "tiger", "subscribe": "clicks"}))
    {'format': 'kafka', 'options': {'kafka.sasl.password': '***', 'subscribe': 'clicks'}}
    >>> shown({"wait": timedelta(minutes=90), "url": "jdbc://scott:tiger@db/x"})
    {'wait': '1 hour 30 minutes', 'url': 'jdbc://***@db/x'}
    """
    if isinstance(settings, BaseModel):
        fields = type(settings).model_fields.items()
        said = {info.alias or field: getattr(settings, field) for field, info in fields}
        return {field: shown(_without_secrets(field, value)) for field, value in said.items() if value is not None}
    if isinstance(settings, dict):
        return {str(key): shown(value) for key, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [shown(value) for value in settings]
    if isinstance(settings, timedelta):
        return span(settings) if settings else "0 seconds"
    if isinstance(settings, datetime):
        return settings.isoformat()
    return _LOGIN.sub(HIDDEN, settings) if isinstance(settings, str) else settings


def _without_secrets(field: str, value: Any) -> Any:
    if field != "options":
        return value
    return {key: HIDDEN if _SECRET.search(key) else option for key, option in value.items()}
