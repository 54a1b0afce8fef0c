"""``versioned validate``: check the tables of an application and the records of its sources."""

from __future__ import annotations

from pathlib import Path

import typer

from jobs.cli_shared import AsJson, Config, DryRunFlag, Sets, Work, echo_json, progress, quiet_session, sets_of


def validate(
    config: Config, work: Work = Path(), sets: Sets = None, dry_run: DryRunFlag = False, json: AsJson = False
) -> None:
    """Check tables for their invariants and sources for their rules; write HTML pages. Exit code 3 on violations."""
    from jobs.named_tables import names_of, tables_of
    from jobs.validate import Judged, code_of, pages_of, settings_of
    from jobs.validate import validate as judged_all

    settings, job = settings_of(config, sets_of(sets))
    pages = pages_of(settings, work)
    targets = tables_of(settings, work, lambda: quiet_session("validate"))
    checked = [topic for topic, source in (job.sources if job else {}).items() if source.quality is not None]
    if dry_run:
        for name in (*names_of(targets), *(f"sources.{topic}" for topic in checked)):
            echo_json({"table": name}) if json else typer.echo(name)
        return
    with progress() as shown:
        bar = shown.add_task("tables and sources", total=len(targets) + len(checked))

        def tell(found: Judged) -> None:
            shown.advance(bar)
            echo_json(found.to_json()) if json else typer.echo(str(found))

        judged = judged_all(quiet_session("validate"), settings, work, job, tell, targets)
    if not json:
        typer.echo(f"pages: {pages / 'index.html'}")
    if code := code_of(judged):
        raise typer.Exit(code)
