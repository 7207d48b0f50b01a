"""What an agent takes, and what of it is kept."""

import copy
import threading
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    Base64Source,
    ImageBlock,
    InvalidMessageError,
    LLMMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

PNG = "iVBORw0KGgo="


def conversation() -> list[LLMMessage]:
    return [
        LLMMessage.user("Keep answers concise."),
        LLMMessage.assistant("Understood."),
        LLMMessage.user_with_blocks(
            [
                TextBlock(text="What is shown here?"),
                ImageBlock(source=Base64Source(media_type="image/png", data=PNG)),
            ]
        ),
    ]


def agent(adapter: ScriptedAdapter, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


@proves("AGT-1", "AGT-2")
async def test_a_string_is_one_user_message_with_one_text_block() -> None:
    adapter = ScriptedAdapter(["4"])
    tester = agent(adapter)
    result = await tester.run("What is 2+2?")
    assert result.success
    assert result.output == "4"
    assert adapter.calls[0].messages == [LLMMessage.user("What is 2+2?")]
    assert tester.get_history() == []


@proves("AGT-1")
async def test_messages_are_the_complete_conversation() -> None:
    adapter = ScriptedAdapter(["A cat."])
    await agent(adapter).run(conversation())
    assert adapter.calls[0].messages == conversation()


@proves("AGT-1")
async def test_message_shaped_mappings_are_accepted_and_left_alone() -> None:
    given = [
        MappingProxyType(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            }
        )
    ]
    before = copy.deepcopy(dict(given[0]))
    adapter = ScriptedAdapter(["ok"])
    await agent(adapter).run(given)
    sent = adapter.calls[0].messages[0]
    assert sent.content[0] == TextBlock(text="Look")
    assert isinstance(sent.content[1], ImageBlock)
    assert dict(given[0]) == before


@proves("AGT-2", "AGT-5")
async def test_run_and_stream_do_not_read_the_history() -> None:
    adapter = ScriptedAdapter(["one", "two"])
    tester = agent(adapter, history=[LLMMessage.user("earlier"), LLMMessage.assistant("yes")])
    await tester.run("now")
    async with tester.stream("now") as stream:
        async for _ in stream:
            pass
    assert [call.messages for call in adapter.calls] == [[LLMMessage.user("now")]] * 2
    assert len(tester.get_history()) == 2


@proves("AGT-3", "AGT-5")
async def test_prompt_sends_history_and_turn_and_keeps_both() -> None:
    adapter = ScriptedAdapter(["first", "second"])
    tester = agent(adapter, history=[LLMMessage.user("Keep it short."), LLMMessage.assistant("Fine.")])
    await tester.prompt("a")
    image = ImageBlock.from_base64(PNG, "image/png")
    await tester.prompt([image, TextBlock(text="b")])
    assert adapter.calls[1].messages == [
        LLMMessage.user("Keep it short."),
        LLMMessage.assistant("Fine."),
        LLMMessage.user("a"),
        LLMMessage.assistant("first"),
        LLMMessage.user_with_blocks([image, TextBlock(text="b")]),
    ]
    assert tester.get_history() == [*adapter.calls[1].messages, LLMMessage.assistant("second")]


@proves("AGT-4")
async def test_a_failed_prompt_leaves_the_history_as_it_was() -> None:
    adapter = ScriptedAdapter([RuntimeError("down"), "up"])
    tester = agent(adapter)
    assert not (await tester.prompt("a")).success
    assert tester.get_history() == []
    assert (await tester.prompt("b")).success
    assert tester.get_history() == [LLMMessage.user("b"), LLMMessage.assistant("up")]


@proves("AGT-5")
def test_a_history_is_copied_and_checked_with_the_definition() -> None:
    turn = LLMMessage.user("earlier")
    tester = agent(ScriptedAdapter([]), history=[turn])
    turn.content.clear()
    assert tester.get_history() == [LLMMessage.user("earlier")]
    with pytest.raises(InvalidMessageError, match=r"history\[0\]\.content"):
        AgentConfig("x", model="m", history=[{"role": "user", "content": "text"}])


@proves("AGT-6")
async def test_what_an_agent_gives_out_is_a_copy() -> None:
    tester = agent(ScriptedAdapter(["answer"]))
    result = await tester.prompt("q")
    result.messages[0].content.clear()
    tester.get_history()[0].content.clear()
    assert tester.get_history() == [LLMMessage.user("q"), LLMMessage.assistant("answer")]
    tester.reset()
    assert tester.get_history() == []


@proves("AGT-6", "AGT-5")
def test_reset_forgets_the_history_of_the_definition_too() -> None:
    tester = agent(ScriptedAdapter([]), history=[LLMMessage.user("earlier")])
    tester.reset()
    assert tester.get_history() == []


BAD_INPUTS: list[Any] = [
    None,
    [],
    [None],
    [{"role": "user", "content": "text"}],
    [{"role": "user", "content": [None]}],
    [{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {"f": print}}]}],
]


@proves("AGT-7")
@pytest.mark.parametrize(
    ("method", "bad"),
    [(method, bad) for method in ("run", "stream", "prompt") for bad in BAD_INPUTS if (method, bad) != ("prompt", [])],
)
async def test_bad_input_raises_at_the_call_and_does_nothing_else(method: str, bad: object) -> None:
    seen: list[object] = []
    adapter = ScriptedAdapter(["never"])
    tester = agent(adapter, before_run=seen.append)
    with pytest.raises(InvalidMessageError):
        getattr(tester, method)(bad)
    assert seen == []
    assert adapter.calls == []
    assert tester.get_history() == []


def tamper(messages: list[LLMMessage]) -> None:
    """Change everything that the caller still holds."""
    for message in messages:
        for block in message.content:
            if isinstance(block, TextBlock):
                block.text = "changed"
            if isinstance(block, ImageBlock) and isinstance(block.source, Base64Source):
                block.source.data = "AAAA"
            if isinstance(block, ToolUseBlock):
                block.input["city"] = "changed"
        message.content.append(TextBlock(text="added"))
    messages.clear()


def with_tools() -> list[LLMMessage]:
    call = ToolUseBlock.new("call_1", "weather", {"city": "Paris"})
    return [
        *conversation(),
        LLMMessage.assistant([call]),
        LLMMessage.user_with_blocks([ToolResultBlock.new("call_1", {"temp": 21})]),
    ]


@proves("AGT-8")
@pytest.mark.parametrize("method", ["run", "stream"])
async def test_changes_after_the_call_do_not_reach_the_run(method: str) -> None:
    adapter = ScriptedAdapter(["ok"])
    given = with_tools()
    started = getattr(agent(adapter), method)(given)
    tamper(given)
    if method == "run":
        await started
    else:
        async with started:
            async for _ in started:
                pass
    assert adapter.calls[0].messages == with_tools()


@proves("AGT-8")
async def test_changes_after_the_call_do_not_reach_a_prompt() -> None:
    adapter = ScriptedAdapter(["ok"])
    tester = agent(adapter)
    blocks: list[Any] = [TextBlock(text="q"), ImageBlock.from_base64(PNG, "image/png")]
    waiting = tester.prompt(blocks)
    blocks[0].text = "changed"
    blocks.clear()
    await waiting
    assert adapter.calls[0].messages == [
        LLMMessage.user_with_blocks([TextBlock(text="q"), ImageBlock.from_base64(PNG, "image/png")])
    ]


@proves("AGT-9")
async def test_runs_of_one_agent_at_the_same_time_do_not_mix() -> None:
    async def echo(messages: list[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        await anyio.lowlevel.checkpoint()
        block = messages[-1].content[0]
        assert isinstance(block, TextBlock)
        await anyio.lowlevel.checkpoint()
        return LLMResponse([TextBlock(text=f"echo {block.text}")])

    tester = agent(ScriptedAdapter(echo))
    outputs: dict[int, str] = {}

    async def one(number: int) -> None:
        outputs[number] = (await tester.run(str(number))).output

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(one, number)
    assert outputs == {number: f"echo {number}" for number in range(200)}


@proves("AGT-9")
async def test_prompts_wait_for_each_other() -> None:
    async def count(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.lowlevel.checkpoint()
        return str(len(messages))

    tester = agent(ScriptedAdapter(count))
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(tester.prompt, str(number))
    history = tester.get_history()
    assert [message.role for message in history] == ["user", "assistant"] * 5
    assert [message.content for message in history[1::2]] == [[TextBlock(text=str(n))] for n in (1, 3, 5, 7, 9)]


@proves("AGT-10")
async def test_no_block_is_dropped_and_a_refusal_is_a_failed_result() -> None:
    def refuse(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        assert any(isinstance(block, ImageBlock) for message in messages for block in message.content)
        raise ValueError("this model cannot see images")

    result = await agent(ScriptedAdapter(refuse)).run(conversation())
    assert not result.success
    assert "cannot see images" in result.output


@proves("AGT-10")
async def test_an_image_with_a_single_turn_is_no_special_case() -> None:
    adapter = ScriptedAdapter(["seen"])
    result = await agent(adapter, max_turns=1).run(conversation())
    assert result.output == "seen"


@proves("AGT-80")
async def test_an_agent_says_what_it_is_doing() -> None:
    seen: list[str] = []

    async def look(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        seen.append(tester.state)
        return "ok"

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    tester = agent(ScriptedAdapter([look, RuntimeError("down"), hang, "fine"]))
    states = [tester.state]
    with pytest.raises(InvalidMessageError):
        await tester.run([])
    states.append(tester.state)
    await tester.run("q")
    assert seen == ["running"]
    states.append(tester.state)
    await tester.prompt("q")
    states.append(tester.state)
    with anyio.move_on_after(0.02):
        await tester.run("q")
    states.append(tester.state)
    await tester.run("q")
    states.append(tester.state)
    tester.reset()
    states.append(tester.state)
    assert states == ["idle", "idle", "completed", "error", "error", "completed", "idle"]


@proves("AGT-9")
def test_prompts_from_several_threads_wait_for_each_other() -> None:
    async def pause(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep(0.001)
        return "ok"

    tester = agent(ScriptedAdapter(pause))
    failures: list[BaseException] = []

    async def talk() -> None:
        for _ in range(5):
            await tester.prompt("q")

    def work(backend: str) -> None:
        try:
            anyio.run(talk, backend=backend)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(backend,)) for backend in ("asyncio", "trio", "asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [message.role for message in tester.get_history()] == ["user", "assistant"] * 20


@proves("AGT-9")
async def test_a_waiting_prompt_can_be_cancelled() -> None:
    gate = anyio.Event()

    async def wait(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await gate.wait()
        return "ok"

    tester = agent(ScriptedAdapter(wait))
    async with anyio.create_task_group() as group:
        group.start_soon(tester.prompt, "first")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.02) as scope:
            await tester.prompt("second")
        assert scope.cancelled_caught
        group.start_soon(tester.prompt, "third")
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert [message.content for message in tester.get_history()[::2]] == [
        [TextBlock(text="first")],
        [TextBlock(text="third")],
    ]


@proves("AGT-9", "AGT-6")
async def test_a_reset_is_not_undone_by_a_prompt_that_goes_on() -> None:
    def reset(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        tester.reset()
        return "ok"

    tester = agent(ScriptedAdapter(reset), history=[LLMMessage.user("earlier")])
    assert (await tester.prompt("q")).success
    assert tester.get_history() == []
