"""Secrets that settings hold: ``conf show`` keeps them to itself, and shows what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobs.cli import app

_CONF = Path(__file__).parents[2] / "conf"


def _shown(settings: dict[str, Any], work: Path) -> list[str]:
    """What ``conf show`` prints of settings, in each of its forms."""
    file = work / "secret.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return [CliRunner().invoke(app, ["conf", "show", "-c", str(file), *form]).stdout for form in ((), ("--json",))]


@pytest.mark.parametrize(
    ("option", "value", "seen"),
    [
        ("kafka.sasl.jaas.config", "x password='tiger'", False),
        ("kafka.ssl.truststore.password", "tiger", False),
        ("fs.s3a.secret.key", "tiger", False),
        ("fs.s3a.access.key", "tiger", False),
        ("authToken", "tiger", False),
        ("url", "jdbc:postgresql://scott:tiger@db/x", False),
        ("url", "https://:tiger@host/x", False),
        ("url", "https://scott:p@tiger@host/x", False),
        ("url", "jdbc:postgresql://db/x?user=scott&password=tiger", False),
        ("url", "jdbc:sqlserver://db;user=scott;pwd={a;tiger};encrypt=true", False),
        ("url", "jdbc:postgresql://db/x?password=a,tiger&ssl=true", False),
        ("url", "https://store/x?sv=2024&sig=tiger", False),
        ("url", "https://host/x?access_token=tiger&n=1", False),
        ("kafka.ssl.keystore.key", "tiger", False),
        ("kafka.basic.auth.user.info", "key:tiger", False),
        ("eventhubs.connectionString", "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=tiger", False),
        ("endpoint", "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=tiger", False),
        ("fs.s3a.encryption.key", "tiger", False),
        ("Authorization", "Bearer tiger", False),
        ("header", "Authorization: Bearer tiger", False),
        ("header", "Authorization: ApiKey tiger", False),
        ("pulsar.client.authParams", "token:tiger", False),
        ("authentication.kerberos.ticket", "tiger", False),
        ("pass", "tiger", False),
        ("passcode", "tiger", False),
        ("clientKey", "tiger", False),
        ("encryptionKey", "tiger", False),
        ("gcpServiceAccountJson", "tiger", False),
        ("conf", '{"password": "tiger"}', False),
        ("conf", '[{"user": {"name": "scott", "clientKey": "tiger"}}]', False),
        ("conf", 'x {"password": "tiger"', False),
        ("url", "https://host/x?key=tiger&n=1", False),
        ("schema.registry.basic.auth", "u:tiger", False),
        ("cookie", "session=tiger", False),
        ("pw", "tiger", False),
        ("url", "https://tiger@github.com/x", False),
        ("url", "abfss://tiger@account.dfs.core.windows.net/x", True),
        ("fs.azure.account.auth.type", "tiger", True),
        ("conf", '{"topic": {"tiger": 23}}', True),
        ("keyFormat", "tiger", True),
        ("kafka.ssl.keystore.location", "/etc/tiger.pem", True),
        ("url", "jdbc:postgresql://tiger/x?user=scott&ssl=true", True),
        ("subscribe", "tiger", True),
        ("startingOffsets", "tiger", True),
    ],
)
def test_secrets_are_not_shown(option: str, value: str, seen: bool, tmp_path: Path) -> None:
    said = yaml.safe_load((_CONF / "alert_few_events.yaml").read_text(encoding="utf-8"))
    said["sources"]["events"]["options"] = {option: value}
    for printed in _shown(said, tmp_path):
        assert option in printed
        assert ("tiger" in printed) is seen


@pytest.mark.parametrize(
    ("argument", "value", "seen"),
    [
        ("db_password", "tiger", False),
        ("api_key", "tiger", False),
        ("sasl_jaas_config", "tiger", False),
        ("url", "jdbc:postgresql://scott:tiger@db/x", False),
        ("options", "user=scott;password=tiger", False),
        ("key", "tiger", True),
        ("topic", "tiger", True),
    ],
)
def test_secrets_among_a_plan_s_arguments_are_not_shown(argument: str, value: str, seen: bool, tmp_path: Path) -> None:
    said = yaml.safe_load((_CONF / "quickstart.yaml").read_text(encoding="utf-8"))
    said["plan_settings"] = {**said["plan_settings"], argument: value}
    for printed in _shown(said, tmp_path):
        assert argument in printed
        assert ("tiger" in printed) is seen
