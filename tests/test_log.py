"""The library's own log lines."""

import io
import subprocess
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from openmultiagent._log import get_logger
from tests.support import proves

HOSTILE = "[/x] {braces} %s %(name)s \x1b[31m {0!r}"


@proves("RUN-40")
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_line_has_its_event_its_level_its_fields_and_its_module(level: str) -> None:
    log = get_logger("openmultiagent.part")
    with capture_logs() as lines:
        getattr(log, level)("something_happened", run_id="r", count=0)
    assert lines == [
        {
            "event": "something_happened",
            "log_level": level,
            "run_id": "r",
            "count": 0,
            "logger": "openmultiagent.part",
        }
    ]


@proves("RUN-41")
def test_a_text_from_outside_is_written_as_it_is() -> None:
    with capture_logs() as lines:
        get_logger("m").warning("tool_failed", text=HOSTILE)
    assert lines[0]["text"] == HOSTILE


@proves("RUN-41")
def test_a_text_from_outside_survives_real_rendering() -> None:
    out = io.StringIO()
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.PrintLoggerFactory(file=out)
    )
    try:
        get_logger("m").error("tool_failed", text=HOSTILE)
    finally:
        structlog.configure(**before)
    assert r"[/x] {braces} %s %(name)s \u001b[31m {0!r}" in out.getvalue()


@proves("RUN-40")
def test_a_configuration_that_comes_after_the_first_line_counts() -> None:
    log = get_logger("m")
    with capture_logs():
        log.info("first")
    with capture_logs() as lines:
        log.info("second")
    assert [line["event"] for line in lines] == ["second"]


@proves("RUN-40")
def test_structlog_is_imported_with_the_first_line_and_not_before() -> None:
    program = (
        "import sys; from openmultiagent._log import get_logger; log = get_logger('m');"
        " assert 'structlog' not in sys.modules; log.warning('x'); assert 'structlog' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


class BrokenSink:
    def write(self, text: str) -> None:
        raise OSError("disk full")

    def flush(self) -> None:
        raise OSError("disk full")


@proves("RUN-42")
def test_a_broken_sink_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", BrokenSink())
    get_logger("m").warning("tool_failed")


@proves("RUN-43")
def test_without_configuration_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        get_logger("m").warning("tool_failed", count=0)
    finally:
        structlog.configure(**before)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tool_failed" in err
