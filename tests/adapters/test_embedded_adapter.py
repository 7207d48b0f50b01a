"""What the embedded engine answers to whole conversations, and how it keeps the rules of an adapter."""

# ruff: noqa: RUF001 - the punctuation of other scripts is what is tested

import base64
import copy
import threading
from typing import Any

import anyio
import pytest
from anyio import to_thread

from openmultiagent.adapters import (
    EmbeddedAdapter,
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    StreamEvent,
    StreamingAdapter,
)
from openmultiagent.adapters._embedded._rank import RANKED, representative
from openmultiagent.adapters._embedded._text import read_sentences
from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    ContentBlock,
    Conversation,
    FileBlock,
    ImageBlock,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from openmultiagent.usage import TokenUsage
from tests.support import proves

MOON = (
    "Apollo 11 was the American spaceflight that first landed humans on the Moon. Commander Neil Armstrong and "
    "Buzz Aldrin landed the lunar module Eagle on July 20, 1969. They spent two hours exploring the site. "
    "Armstrong and Aldrin collected 21.5 kg of lunar material, while Michael Collins flew the command module "
    "Columbia in lunar orbit. The rocket was launched from Kennedy Space Center in Florida. The spacecraft had "
    "three parts, all made by contractors. The mission fulfilled the goal of President Kennedy because it reached"
    " the Moon before 1970. A parade in New York followed."
)
BAHN = (
    "Am 7. Dezember 1835 fuhr die erste deutsche Eisenbahn von Nürnberg nach Fürth. Die Lokomotive Adler war von "
    "Robert Stephenson gebaut worden. Das Netz wuchs schnell. Bis 1850 hatte das Eisenbahnnetz eine Länge von "
    "6.000 Kilometern."
)
AI = (
    "人工智能是计算机科学的一个分支。1956年，麦卡锡等人首次提出了“人工智能”这一术语。早期的研究遇到了困难。"
    "2006年，辛顿提出了深度学习方法。专家系统是一种程序。"
)
CAN = "It can summarise a text, list its key terms, and find the sentences that answer a question about it."
NOTHING = "There is no text to work on"
CANNOT = "It cannot do what the instruction asks"
NO_MATCH = "No sentence of the text matches the question."


async def chat(messages: list[LLMMessage], **options: Any) -> LLMResponse:
    return await EmbeddedAdapter().chat(messages, LLMChatOptions(model="any", **options))


async def ask(*content: str | ContentBlock, **options: Any) -> str:
    blocks = [TextBlock.new(item) if isinstance(item, str) else item for item in content]
    return text_of(await chat([LLMMessage.user_with_blocks(blocks)], **options))


def text_of(response: LLMResponse) -> str:
    (block,) = response.content
    assert isinstance(block, TextBlock)
    return block.text


def file_of(text: str, media_type: str = "text/plain") -> FileBlock:
    data = base64.b64encode(text.encode()).decode().rstrip("=")
    return FileBlock.new("a.txt", Base64Source(media_type=media_type, data=data))


# --- what it is ------------------------------------------------------------------------------------------------------


@proves("EMB-1")
async def test_it_says_what_it_is_and_calls_no_tool() -> None:
    adapter = EmbeddedAdapter()
    assert isinstance(adapter, StreamingAdapter)
    assert adapter.capabilities.read_only
    tools = [LLMToolDef("add", "Add numbers.", {"type": "object"})]
    response = await chat([LLMMessage.user("Add 1 and 2.")], tools=tools, tool_choice="required", temperature=2.0)
    assert response.model == "embedded-extractive-1"
    assert [block.type for block in response.content] == ["text"]
    assert text_of(response).startswith("This is the embedded text engine, which is no language model.")
    await adapter.aclose()


@proves("EMB-2")
async def test_the_answer_is_made_of_the_text_and_is_always_the_same() -> None:
    answers = [await ask("Summarise this", text) for text in (MOON, MOON, BAHN)]
    assert answers[0] == answers[1] != answers[2]
    sentences = {sentence.text for sentence in read_sentences(MOON)}
    assert {sentence.text for sentence in read_sentences(answers[0])} < sentences


# --- what is asked, and about what -----------------------------------------------------------------------------------

COMMANDER = "Commander Neil Armstrong"


@proves("EMB-3")
@pytest.mark.parametrize(
    "content",
    [
        ["Who was the commander?", MOON],
        [MOON, "Who was the commander?"],
        ["File moon.txt", "Who was the commander?", MOON],
        [f"Who was the commander?\n\n{MOON}"],
        [f"Who was the commander?\n{MOON}"],
        [f"Who was the commander? {MOON}"],
        [f"{MOON}\n\nWho was the commander?"],
        [f"{MOON} Who was the commander?"],
        [f"# Task: Commander\n\nWho was the commander?\n\n{MOON}"],
        [f"# Task: Who was the commander?\n\nWho was the commander?\n\n## Context\n\n### Moon (by ann)\n{MOON}"],
        ["Who was the commander?", file_of(MOON)],
        ["Who was the commander?", file_of(MOON, "application/json")],
    ],
)
async def test_instruction_and_material_are_told_apart(content: list[str | ContentBlock]) -> None:
    answer = await ask(*content)
    assert answer.startswith(COMMANDER)
    assert "Who was" not in answer


@proves("EMB-3")
@pytest.mark.parametrize("lead", ["Summarise: ", "Please summarise this text.\n\n\n"])
async def test_a_summary_leaves_its_instruction_out(lead: str) -> None:
    assert await ask(lead + MOON) == await ask("Summarise", MOON)


@proves("EMB-3", "EMB-8")
async def test_the_prompt_of_a_task_with_several_results_is_read() -> None:
    results = "\n\n".join(f"### Why {name}? (by ann)\nThe {name} was late." for name in ("train", "bus", "ferry"))
    answer = await ask(f"# Task: Sum up\n\nSummarise this in three sentences.\n\n## Context\n\n{results}")
    assert answer == "The train was late. The bus was late. The ferry was late."


@proves("EMB-3")
async def test_several_long_blocks_without_an_instruction_are_all_material() -> None:
    answer = await ask(MOON * 2, (BAHN + " ") * 6, system_prompt="You summarise.")
    assert "Armstrong" in answer
    assert "Eisenbahn" in answer


@proves("EMB-3")
async def test_of_short_blocks_that_ask_for_nothing_the_first_is_the_instruction() -> None:
    assert await ask("lunar material", MOON) == await ask("lunar material", MOON, "")
    assert "21.5 kg" in await ask("lunar material", MOON)


@proves("EMB-4")
async def test_earlier_texts_files_and_results_are_material() -> None:
    history = [
        LLMMessage.user("Summarise this\n\n" + MOON),
        LLMMessage.assistant([TextBlock.new("I use a tool."), ToolUseBlock.new("c", "read", {})]),
        LLMMessage.tool([ToolResultBlock.new("c", "Adler was a locomotive by Stephenson.")]),
        LLMMessage.assistant("Columbus commanded the Santa Maria."),
        LLMMessage.user("My name is Anna and I live in Oslo."),
        LLMMessage.assistant("Fine."),
        LLMMessage.user_with_blocks([file_of("Wombats are marsupials of Australia.")]),
    ]
    for question, answer in {
        "Who was the commander?": COMMANDER,
        "What was Adler?": "Adler was a locomotive",
        "Where do I live?": "My name is Anna",
        "What are wombats?": "Wombats are marsupials",
        "Who commanded the Santa Maria?": NO_MATCH,
    }.items():
        assert text_of(await chat([*history, LLMMessage.user(question)])).startswith(answer)


@proves("EMB-4")
async def test_the_texts_of_the_latest_message_come_before_earlier_ones() -> None:
    history = [LLMMessage.user("Summarise\n\n" + MOON), LLMMessage.assistant("Done.")]
    answer = text_of(await chat([*history, LLMMessage.user("Fasse zusammen:\n\n" + BAHN)]))
    assert "Eisenbahn" in answer
    assert "Apollo" not in answer


@proves("EMB-4")
async def test_without_anything_else_the_words_of_the_assistant_are_material() -> None:
    history = [
        LLMMessage.user("What is the capital of France?"),
        LLMMessage.assistant("The capital of France is Paris."),
    ]
    assert text_of(await chat([*history, LLMMessage.user("Summarise")])) == "The capital of France is Paris."


@proves("EMB-5")
async def test_tool_results_in_the_last_message_are_the_material() -> None:
    parts: Any = [
        {"type": "text", "text": "Adler was a locomotive."},
        {"type": "file", "filename": "f", "source": {"type": "base64", "media_type": "text/csv", "data": "YSBi"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1hZ2U="}},
    ]
    messages = [
        LLMMessage.user("Summarise this\n\n" + MOON),
        LLMMessage.assistant([ToolUseBlock.new("c", "read", {})]),
        LLMMessage.tool([ToolResultBlock.new("c", parts)]),
    ]
    answer = text_of(await chat(messages))
    assert answer.endswith("\n\nAdler was a locomotive. a b.")
    assert "image/png: 1" in answer


@proves("EMB-5")
async def test_a_conversation_without_any_instruction_is_summed_up() -> None:
    results = LLMMessage.tool([ToolResultBlock.new("c", MOON)])
    assert text_of(await chat([results])) == await ask("Summarise", MOON)
    assert NOTHING in text_of(await chat([LLMMessage.assistant([])]))


@proves("EMB-6")
async def test_a_long_text_alone_is_its_own_material() -> None:
    assert await ask(MOON) == await ask("Summarise", MOON)


@proves("EMB-6", "EMB-11")
@pytest.mark.parametrize("text", ["", "  \n\t ", "Hello", "Summarise this", "\0\0", "?!", "Write a poem about cats"])
async def test_without_a_text_it_says_what_it_can_do(text: str) -> None:
    answer = await ask(text)
    assert CAN in answer
    assert NOTHING in answer


@proves("EMB-7")
@pytest.mark.parametrize(
    ("instruction", "text", "count"),
    [
        ("Summarise this in one sentence.", MOON, 1),
        ("Give me a three-sentence summary", MOON, 3),
        ("What is this text about?", MOON, 2),
        ("Was sagt der Text? Fass ihn bitte in zwei Sätzen zusammen.", BAHN, 2),
        ("tl;dr", MOON, 2),
        ("用一句话概括", AI, 1),
        ("请总结这篇文章，三句", AI, 3),
    ],
)
async def test_a_summary_is_asked_for_in_many_words(instruction: str, text: str, count: int) -> None:
    answer = await ask(instruction, text)
    assert len(read_sentences(answer)) == count
    assert CANNOT not in answer


@proves("EMB-7")
@pytest.mark.parametrize(
    "instruction", ["Give me three bullet points", "List the 3 main points", "3 key facts as a list"]
)
async def test_a_summary_may_be_a_list(instruction: str) -> None:
    lines = (await ask(instruction, MOON)).split("\n")
    assert all(line.startswith("- ") for line in lines)
    assert len(lines) in {2, 3}


@proves("EMB-7")
async def test_the_system_prompt_decides_when_the_instruction_does_not() -> None:
    assert (await ask(MOON, system_prompt="You list the key terms of texts.")).startswith("- ")
    assert await ask("this", MOON, system_prompt="You summarise.") == await ask("Summarise", MOON)
    as_message = [LLMMessage.system("You list two key terms."), LLMMessage.user(MOON)]
    assert text_of(await chat(as_message)).count("- ") == 2
    assert (await ask("Who was the commander?", MOON, system_prompt="You summarise.")).startswith(COMMANDER)


# --- answering -------------------------------------------------------------------------------------------------------


@proves("EMB-12")
async def test_a_summary_grows_slowly_and_keeps_the_order() -> None:
    words = [
        "apple",
        "river",
        "stone",
        "cloud",
        "tiger",
        "piano",
        "glass",
        "wheat",
        "metal",
        "ocean",
        "candle",
        "forest",
    ]
    text = " ".join(
        f"The {words[n % 12]} number {n} stands beside every {words[n * 5 % 7]} of the old garden." for n in range(600)
    )
    answer = [sentence.text for sentence in read_sentences(await ask("Summarise", text))]
    sentences = [sentence.text for sentence in read_sentences(text)]
    assert 3 <= len(answer) <= 6
    assert answer == sorted(answer, key=sentences.index)
    assert len(read_sentences(await ask("Summarise in 20 sentences", text))) == 20
    assert len(read_sentences(await ask("Summarise in 99 sentences", text))) == 20


@proves("EMB-12")
async def test_a_short_text_is_its_own_summary_and_nothing_is_said_twice() -> None:
    assert await ask("Summarise", "Only this. And that.") == "Only this. And that."
    assert await ask("Summarise", "The worker has started. " * 50) == "The worker has started."


@proves("EMB-12")
def test_of_a_very_long_text_the_start_and_evenly_spaced_sentences_are_ranked() -> None:
    sentences = read_sentences(" ".join(f"Sentence number {n} is here." for n in range(RANKED * 3)))
    chosen = representative(sentences)
    assert len(chosen) <= RANKED
    assert chosen[:200] == sentences[:200]
    assert sentences.index(chosen[-1]) > RANKED * 3 - 10


@proves("EMB-12")
async def test_what_reads_badly_alone_is_not_the_summary() -> None:
    text = (
        "Copyright (c) 2020 The widget makers. However, it depends. Widgets are small machines that sort widgets. "
        "Widget = sort(widget, key=lambda widget: widget.size)[0] | widget. The widget makers sell widgets: "
        "Widgets 1 2 3 4 5 6 7. See https://example.org/widgets for widgets. "
        "Widgets are small machines for many widgets…"
    )
    assert await ask("Summarise in one sentence", text) == "Widgets are small machines that sort widgets."


@proves("EMB-13")
@pytest.mark.parametrize(
    ("instruction", "text", "count", "term"),
    [
        ("key terms", MOON, 10, "Kennedy"),
        ("What are the 5 most important keywords?", MOON, 5, "Armstrong"),
        ("Nenne die Schlüsselwörter", BAHN, 10, "Eisenbahn"),
        ("关键词", AI, 10, "人工智能"),
    ],
)
async def test_key_terms_are_a_list(instruction: str, text: str, count: int, term: str) -> None:
    lines = (await ask(instruction, text)).split("\n")
    assert 3 <= len(lines) <= count
    assert any(term in line for line in lines)
    assert all(line.startswith("- ") for line in lines)


@proves("EMB-14")
@pytest.mark.parametrize(
    ("question", "text", "part"),
    [
        ("Who landed the Eagle?", MOON, "Commander Neil Armstrong and Buzz Aldrin"),
        ("When did Eagle land", MOON, "July 20, 1969"),
        ("Where was it launched?", MOON, "Kennedy Space Center in Florida"),
        ("How many parts did the spacecraft have?", MOON, "three parts"),
        ("Why was the goal fulfilled?", MOON, "because it reached the Moon"),
        ("What is Apollo 11?", MOON, "Apollo 11 was the American spaceflight"),
        ("Did a parade follow?", MOON, "A parade in New York followed."),
        ("Tell me who collected the material?", MOON, "21.5 kg"),
        ("Wann fuhr die erste Eisenbahn?", BAHN, "1835"),
        ("Wer baute die Lokomotive?", BAHN, "Stephenson"),
        ("谁提出了深度学习方法？", AI, "2006年，辛顿提出了深度学习方法。"),
        ("什么时候提出人工智能？", AI, "1956年"),
    ],
)
async def test_a_question_is_answered_by_the_sentences_that_match_it(question: str, text: str, part: str) -> None:
    answer = await ask(question, text)
    assert part in answer
    assert len(read_sentences(answer)) <= 3


@proves("EMB-14")
async def test_headings_and_longer_forms_of_a_word_count_too() -> None:
    text = "# Configuration\n\nAll settings live in one place.\n\n# Other\n\nEvery place counts."
    assert await ask("How about the configuration?", text) == "All settings live in one place."
    assert "Eisenbahnnetz" in await ask("Wie lang war das Eisenbahnnetzwerk?", BAHN)


@proves("EMB-14")
@pytest.mark.parametrize(
    "question", ["Who discovered penicillin?", "Why?", "What is the colour of the dragon of Apollo?"]
)
async def test_a_question_that_no_sentence_matches_is_not_answered(question: str) -> None:
    answer = await ask(question, MOON)
    assert answer.startswith(NO_MATCH)
    assert "Its key terms are: " in answer
    assert await ask(question, "So it is.") == NO_MATCH


@proves("EMB-14")
async def test_an_answer_is_not_given_twice() -> None:
    assert await ask("Who flew?", "Anna flew to Oslo. " * 5) == "Anna flew to Oslo."


@proves("EMB-15")
async def test_another_instruction_finds_what_shares_its_words_or_is_declined() -> None:
    assert "21.5 kg" in await ask("Tell me about the lunar material", MOON)
    declined = await ask("Translate this into French", MOON)
    assert CANNOT in declined
    assert declined.endswith("\n\n" + await ask("Summarise", MOON))


@proves("EMB-16")
async def test_images_and_foreign_files_are_named_and_the_rest_is_answered() -> None:
    content: list[str | ContentBlock] = [
        "Who was the commander?",
        MOON,
        ImageBlock.from_base64("aW1hZ2U=", "image/png"),
        ImageBlock.from_base64("aW1hZ2U=", "image/png"),
        ImageBlock.from_url("https://example.org/a.jpg"),
        FileBlock.new("a.pdf", Base64Source(media_type="application/pdf", data="aW1hZ2U=")),
        FileBlock.new("b", UrlSource(url="https://example.org/b")),
    ]
    notes, answer = (await ask(*content)).split("\n\n")
    assert notes == (
        "The embedded engine cannot see images; 3 were left out (given by URL: 1, image/png: 2). "
        "It can read text files only; left out: a.pdf (application/pdf), b (given by URL)."
    )
    assert answer.startswith(COMMANDER)
    alone = await ask("What is in this picture?", ImageBlock.from_base64("aW1hZ2U=", "image/png"))
    assert alone.startswith("The embedded engine cannot see images; 1 was left out (image/png: 1).")
    assert NOTHING in alone


@proves("EMB-17")
async def test_an_answer_is_cut_at_a_sentence_or_a_word() -> None:
    whole = await chat([LLMMessage.user(f"Summarise\n\n{MOON}")], max_tokens=500)
    assert whole.stop_reason == "end_turn"
    first = "Apollo 11 was the American spaceflight that first landed humans on the Moon."
    for tokens, text in [(20, first), (10, "Apollo 11 was the American spaceflight"), (1, "Apol"), (0, "Apol")]:
        cut = await chat([LLMMessage.user(f"Summarise\n\n{MOON}")], max_tokens=tokens)
        assert (text_of(cut), cut.stop_reason) == (text, "max_tokens")


# --- calls -----------------------------------------------------------------------------------------------------------


@proves("EMB-18")
async def test_the_usage_counts_words() -> None:
    messages = [
        LLMMessage.user("Who is it"),
        LLMMessage.assistant("Paris 人工"),
        LLMMessage.user("Summarise\n\nA b. C d."),
    ]
    response = await chat(messages, system_prompt="Be brief.")
    assert text_of(response) == "A b. C d."
    assert response.usage == TokenUsage(input_tokens=2 + 3 + 3 + 5, output_tokens=4)


@proves("EMB-19")
@pytest.mark.parametrize("instruction", ["Summarise", "key terms", "Who discovered penicillin?", "Translate this", ""])
async def test_a_stream_delivers_the_answer_by_sentences(instruction: str) -> None:
    adapter, options = EmbeddedAdapter(), LLMChatOptions(model="any")
    messages = [LLMMessage.user_with_blocks([TextBlock.new(instruction), TextBlock.new(MOON)])]
    stream = adapter.stream(messages, options)
    *pieces, done = [event async for event in stream]
    assert len(pieces) > 1
    assert "".join(str(piece.data) for piece in pieces) == text_of(await adapter.chat(messages, options))
    assert done == StreamEvent("done", await adapter.chat(messages, options))
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@proves("EMB-19")
async def test_a_stream_may_be_left_early() -> None:
    stream = EmbeddedAdapter().stream([LLMMessage.user(MOON)], LLMChatOptions(model="any"))
    assert (await anext(stream)).type == "text"
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    unused = EmbeddedAdapter().stream([LLMMessage.user(MOON)], LLMChatOptions(model="any"))
    await unused.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(unused)


@proves("EMB-20")
async def test_an_invalid_conversation_is_refused() -> None:
    broken: Any = [{"role": "user", "content": "no list"}]
    with pytest.raises(InvalidMessageError, match=r"messages\[0\]\.content"):
        await chat(broken)
    with pytest.raises(InvalidMessageError):
        await anext(EmbeddedAdapter().stream(broken, LLMChatOptions(model="any")))


@proves("EMB-20")
async def test_the_conversation_is_only_read() -> None:
    conversation = Conversation([LLMMessage.new(Role.USER, [TextBlock.new("Summarise"), TextBlock.new(MOON)])])
    before = copy.deepcopy(list(conversation))
    await EmbeddedAdapter().chat(conversation, LLMChatOptions(model="any"))
    assert list(conversation) == before


@proves("EMB-20")
async def test_long_texts_are_worked_on_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    run_sync: Any = to_thread.run_sync

    async def noted(work: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        return await run_sync(work, **options)

    monkeypatch.setattr(to_thread, "run_sync", noted)
    await ask("Summarise", MOON)
    assert threads == []
    await ask("Summarise", MOON * 20)
    assert len(threads) == 1


@proves("EMB-20")
@pytest.mark.parametrize("times", [1, 100])
async def test_a_call_can_be_cancelled(times: int) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ask("Summarise", MOON * times)
    assert scope.cancelled_caught
