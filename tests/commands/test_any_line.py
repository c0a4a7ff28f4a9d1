"""Whatever stands on a command line: the command does something, or refuses in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import PendingCommand, run
from batchai_magics.commands.output.command_progress import Stream, run_operation
from batchai_magics.commands.output.command_result import RENDERERS
from batchai_magics.commands.parsing.command_completion import expected_in_line
from batchai_magics.commands.parsing.command_parser import Invocation, az_command_words, parse
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.commands.specs.shared_options import CommandSpec, options_of
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.options.option import Option, ValueKind
from tests import odd_inputs
from tests.models.samples import cluster_body, job_body
from tests.world import processes_of, until

pytestmark = pytest.mark.slow  # a line may happen to make a cluster whose nodes have something to set up
FILES = ("job.json", "log.txt", "empty")
WORDS = sorted({word for command in COMMANDS for word in command.parts})
SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
EXAMPLES = max(1, settings.default.max_examples // 20)  # of each command


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    """A backend in which little is there, and a working folder with a few files; `~` is an empty one."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "log.txt").write_text("1\timages/sec: 10.0 +/- 0.0 (jitter = 0.0)\t2.5\n")
    (folder / "empty").write_text("")
    made = Context(Settings(sections={"local": LocalSettings(home=folder / "home")}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("nobody")))
        yield made
        until(lambda: not made.backend.runner.reap() and not processes_of(folder / "home"))
        made.backend.close()


@st.composite
def lines(draw, command: CommandSpec) -> list[str]:
    """A line of this command, with odd values of some of its options."""
    words = list(command.parts)
    for option in options_of(command):
        if option.is_required or draw(st.integers(0, 5)) == 0:
            words += draw(given_as(option))
    return words


def given_as(option: Option) -> st.SearchStrategy[list[str]]:
    """One option with a value, in one of the ways that it can be written."""
    flags = st.just("") if option.is_positional else st.sampled_from(option.flags)
    likely = [*option.choices, *FILES, "default", "1", "x", "azfiles", ".", "1.5", "[0]"]
    value = st.one_of(odd_inputs.texts, st.sampled_from(likely))
    if option.value_kind is ValueKind.NOTHING:
        return flags.map(lambda flag: [flag])
    joined = st.builds(lambda flag, text: [f"{flag}={text}"] if flag else [text], flags, value)
    apart = st.builds(lambda flag, text: [word for word in (flag, text) if word or not flag], flags, value)
    return st.one_of(apart, joined)


def carried_out(words: list[str], context: Context) -> None:
    """Runs a line to its end, and shows what it gave in every way."""
    invocation = parse(words)
    if not isinstance(invocation, Invocation):
        return
    value = run(invocation, context)
    if isinstance(value, Stream):
        list(value.parts)
        return
    result = (
        value.result(run_operation(value.operation, is_shown=False))
        if isinstance(value, PendingCommand)
        else value
    )
    for output in RENDERERS:
        result.to_text(output)


def home(context: Context) -> list[Path]:
    """What a backend has written, but for its store."""
    return sorted(
        path for path in context.settings.sections["local"].home.rglob("*") if "state" not in path.name
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
@settings(max_examples=EXAMPLES, suppress_health_check=SUPPRESSED)
@given(st.data())
def test_any_values_of_a_commands_options(
    context: Context, command: CommandSpec, data: st.DataObject
) -> None:
    words = data.draw(lines(command))
    until(lambda: not context.backend.runner.reap())  # what lines before this one have started writes as well
    before = home(context)
    refused = odd_inputs.rejection(lambda: carried_out(words, context))
    if isinstance(refused, UsageError):
        assert home(context) == before, "it was refused, and something was written"


@given(st.lists(st.one_of(st.sampled_from(WORDS), odd_inputs.texts), max_size=5))
def test_any_words(words: list[str]) -> None:
    odd_inputs.rejection(lambda: parse(words))
    odd_inputs.rejection(lambda: az_command_words(words))
    expected_in_line(words)


@settings(max_examples=3 * EXAMPLES, suppress_health_check=SUPPRESSED)
@given(odd_inputs.serialized(job_body()))
def test_any_job_file(context: Context, text: str) -> None:
    Path("job.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    odd_inputs.rejection(
        lambda: carried_out(["job", "create", "-n", "x", "-f", "job.json", "-c", "none"], context)
    )


@settings(max_examples=3 * EXAMPLES, suppress_health_check=SUPPRESSED)
@given(odd_inputs.serialized(cluster_body()))
def test_any_cluster_file(context: Context, text: str) -> None:
    Path("cluster.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    carried = ["cluster", "create", "-n", "x", "-f", "cluster.json", "-w", "none"]
    odd_inputs.rejection(lambda: carried_out(carried, context))
