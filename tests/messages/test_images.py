"""Images: URLs, data URIs, base64 texts and files."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    UrlSource,
    assert_valid_messages,
    copy_messages,
)
from openmultiagent.messages._clone import Checked
from tests.support import proves


def refusal(make: Any) -> str:
    with pytest.raises(InvalidMessageError) as caught:
        make()
    assert caught.value.path == ""
    return caught.value.message


@proves("MSG-30", "MSG-35")
@pytest.mark.parametrize(
    "media_type",
    [
        "png",
        "image/",
        "/png",
        "image/png;charset=utf-8",
        "image/png\n",
        "image/png, x",
        "image/-x",
        "image/p\u00e9",
        " image/png",
    ],
)
def test_media_types_have_no_parameters_and_are_ascii(media_type: str) -> None:
    assert "media_type must be a MIME type without parameters" in refusal(lambda: Base64Source.new(media_type, "AAAA"))
    refusal(lambda: ImageBlock.from_base64("AAAA", media_type))


@proves("MSG-30")
@pytest.mark.parametrize("media_type", ["image/svg+xml", "application/vnd.ms-excel", "x/0!#$&^_.+-"])
def test_media_types_may_have_the_characters_of_the_standard(media_type: str) -> None:
    assert Base64Source.new(media_type, "AAAA").media_type == media_type


@proves("MSG-31")
@pytest.mark.parametrize("data", ["aW1hZ2U=", "aW1hZ2U", "YQ==", "YQ=", "YQ", "AAAA", "+/+/"])
def test_sources_take_canonical_base64_with_or_without_padding(data: str) -> None:
    assert Base64Source.new("image/png", data).data == data


@proves("MSG-31")
@pytest.mark.parametrize(
    "data",
    ["YR==", "YR", "A", "====", "AAAA\n", "AA-_", "A A=", "AAAAA", "AAAAA=", "YQ===", "=AAA", "ÄAAA", "data:,A", "ab1"],
)
def test_sources_refuse_other_base64(data: str) -> None:
    assert "data must contain raw base64 data" in refusal(lambda: Base64Source.new("image/png", data))


@proves("MSG-31")
def test_sources_refuse_empty_base64() -> None:
    for data in ("", " "):
        assert "data must be a non-empty string" in refusal(lambda data=data: Base64Source.new("image/png", data))


@proves("MSG-32")
@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "https://example.com:8080/a.png?b=c#d",
        "HTTPS://EXAMPLE.COM",
        "http://[::1]/",
        "https://münchen.de/ä",
    ],
)
def test_url_sources_take_absolute_http_urls(url: str) -> None:
    assert UrlSource(url=url).url == url
    assert ImageBlock.from_url(url).url == url


@proves("MSG-32")
@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "must be a non-empty string"),
        ("file:///etc/passwd", "must use HTTP or HTTPS"),
        ("javascript:alert(1)", "must use HTTP or HTTPS"),
        ("data:image/png;base64,AAAA", "must use HTTP or HTTPS"),
        ("/images/x.jpg", "must be an absolute HTTP(S) URL"),
        ("http://", "must be an absolute HTTP(S) URL with a host"),
        ("http://:80/", "must be an absolute HTTP(S) URL with a host"),
        ("http:\\\\evil.com", "must be an absolute HTTP(S) URL"),
        ("http://evil.com\\.good.com/", "must be an absolute HTTP(S) URL with a host"),
        ("http://a b/", "must be an absolute HTTP(S) URL with a host"),
        ("http://user:pw@example.com/", "without user name and password"),
        ("http://a:port/", "must be an absolute HTTP(S) URL"),
        ("http://[::1/", "must be an absolute HTTP(S) URL"),
        (" http://a/", "without spaces around it"),
        ("http://a/\n", "without spaces around it"),
        ("http://a/\x7fb", "without control characters"),
        ("http://ä/\x85b", "without control characters"),
        ("http://a/\ud800", "without lone surrogates"),
    ],
)
def test_url_sources_refuse_other_urls(url: str, text: str) -> None:
    assert text in refusal(lambda: UrlSource(url=url))


@proves("MSG-33")
@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "cannot be empty"),
        (None, "must be a string"),
        ("\n", "control characters"),
        ("ftp://x\x00", "control characters"),
        ("https://example.com/a\tb", "control characters"),
        ("https://example.com/\x1b[0m", "control characters"),
        ("https://example.com/\r\nHost: x", "control characters"),
        ("ftp://example.com/a.png", "must start with http://, https://, or data:"),
        ("/images/x.jpg", "must start with http://, https://, or data:"),
        ("javascript:alert(1)", "must start with http://, https://, or data:"),
        ("file:///etc/passwd", "must start with http://, https://, or data:"),
        (" https://example.com/", "must start with http://, https://, or data:"),
        ("https://", "must be an absolute HTTP(S) URL with a host"),
        ("https://a@b.com/", "without user name and password"),
        ("https://b.com/\ud83d", "without lone surrogates"),
    ],
)
def test_from_url_refuses_in_order(url: Any, text: str) -> None:
    assert text in refusal(lambda: ImageBlock.from_url(url))


@proves("MSG-33")
@pytest.mark.parametrize("url", ["ftp://me:hunter2@example.com/", "https://me:hunter2@example.com/"])
def test_a_refusal_shows_no_password(url: str) -> None:
    assert "hunter2" not in refusal(lambda: ImageBlock.from_url(url))


@proves("MSG-34")
@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("data:notanimage", "must be in format: data:image/TYPE;base64,DATA"),
        ("data:image/png,AAAA", "must be in format: data:image/TYPE;base64,DATA"),
        ("data:text/plain;base64,AAAA", "MIME type must start with 'image/'"),
        ("data:;base64,AAAA", "MIME type must start with 'image/'"),
        ("data:image/png;charset=utf-8;base64,AAAA", "MIME type without parameters"),
        ("data:image/;base64,AAAA", "MIME type without parameters"),
        ("data:image/png;base64,", "Data URI base64 data cannot be empty"),
        ("data:image/png;base64,hello world", "Data URI base64 data contains invalid characters"),
        ("data:image/png;base64,@@@", "Data URI base64 data contains invalid characters"),
        ("data:image/png;base64,ABC", "multiple of 4"),
        ("data:image/png;base64,==abc", "multiple of 4"),
        ("data:image/png;base64,==abcdef", "padding characters must be at the end"),
        ("data:image/png;base64,ab==cd", "multiple of 4"),
    ],
)
def test_data_uris_must_hold_a_base64_image(uri: str, text: str) -> None:
    assert text in refusal(lambda: ImageBlock.from_url(uri))


@proves("MSG-34")
@pytest.mark.parametrize("uri", ["data:image/png;base64,AAAA", "DATA:image/svg+xml;base64,YQ=="])
def test_a_data_uri_becomes_a_base64_source_and_is_given_back_byte_for_byte(uri: str) -> None:
    image = ImageBlock.from_url(uri)
    assert isinstance(image.source, Base64Source)
    assert image.url == uri
    assert copy_messages([LLMMessage.user_with_blocks([image])])[0].content[0].url == uri  # type: ignore[union-attr]
    image.source.data = "BBBB"
    assert image.url.endswith(";base64,BBBB")


@proves("MSG-35")
@pytest.mark.parametrize(
    ("data", "mime", "text"),
    [
        ("", "", "cannot be empty"),
        (b"AAAA", "image/png", "must be a string, got bytes"),
        ("hello world", "image/png", "invalid characters"),
        ("test@data", "image/png", "invalid characters"),
        ("abc\ndef", "image/png", "invalid characters"),
        ("\uff21\uff21\uff21\uff21", "image/png", "invalid characters"),
        ("A", "image/png", "multiple of 4"),
        ("AB", "image/png", "multiple of 4"),
        ("ABC", "image/png", "multiple of 4"),
        ("ABCD===", "image/png", "multiple of 4"),
        ("A===", "image/png", "invalid padding"),
        ("A=BC", "image/png", "padding characters must be at the end"),
        ("YR==", "image/png", "unused bits"),
        ("AAAA", "", "MIME type cannot be empty"),
        ("AAAA", None, "MIME type cannot be empty"),
        ("AAAA", "text/plain", "MIME type must start with 'image/'"),
        ("AAAA", "image/png;charset=utf-8", "MIME type contains invalid characters"),
        ("AAAA", "image/png,extra", "MIME type contains invalid characters"),
        ("AAAA", "image/png\n", "MIME type contains invalid characters"),
        ("AAAA", "image/png\r\nX-Header: 1", "MIME type contains invalid characters"),
        ("AAAA", "image/p g", "without parameters"),
    ],
)
def test_from_base64_refuses_in_order(data: Any, mime: Any, text: str) -> None:
    assert text in refusal(lambda: ImageBlock.from_base64(data, mime))


@proves("MSG-36")
@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "webp", "avif", "bmp", "tiff", "svg+xml"])
def test_every_image_type_is_accepted(kind: str) -> None:
    assert ImageBlock.from_base64("AAAA", f"image/{kind}").url == f"data:image/{kind};base64,AAAA"


@proves("MSG-36")
def test_a_source_of_another_type_makes_no_image() -> None:
    source = Base64Source.new("application/pdf", "AAAA")
    assert "MIME type must start with 'image/'" in refusal(lambda: ImageBlock(source=source))
    with pytest.raises(InvalidMessageError, match="MIME type must start with 'image/'") as caught:
        assert_valid_messages([{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert caught.value.path == "messages[0].content[0].source.media_type"


@proves("MSG-37")
@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.jpg", "image/jpeg"),
        ("a.JPEG", "image/jpeg"),
        ("a.png", "image/png"),
        ("a.b.gif", "image/gif"),
        ("a.webp", "image/webp"),
        ("a.bmp", "image/bmp"),
        ("a.svg", "image/svg+xml"),
    ],
)
def test_files_go_by_their_extension(tmp_path: Path, name: str, mime: str) -> None:
    (tmp_path / name).write_bytes(b"a")
    assert ImageBlock.from_file_path(tmp_path / name).url == f"data:{mime};base64,YQ=="


@proves("MSG-37")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing", "must have a file extension"),
        (".png", "must have a file extension"),
        ("missing.txt", "Unsupported image file extension: .txt"),
        ("missing.txt", "jpg, jpeg, png, gif, webp, bmp, svg"),
        ("missing.png", "Failed to read image file 'missing.png': No such file or directory"),
        ("a\x00.png", "Failed to read image file"),
    ],
)
def test_files_that_cannot_be_read_are_named(name: str, text: str) -> None:
    assert text in refusal(lambda: ImageBlock.from_file_path(name))


@proves("MSG-37")
async def test_files_can_be_read_in_a_thread(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"a")
    (tmp_path / "empty.png").touch()
    image = await ImageBlock.from_file_path_async(tmp_path / "a.png")
    assert image.url == "data:image/png;base64,YQ=="
    with pytest.raises(InvalidMessageError, match="cannot be empty"):
        await ImageBlock.from_file_path_async(str(tmp_path / "empty.png"))


@proves("MSG-38")
def test_long_urls_are_accepted_and_logged() -> None:
    url = "https://example.com/" + "a" * 2_980
    with capture_logs() as logs:
        assert ImageBlock.from_url(url).url == url
        ImageBlock.from_url("https://example.com/" + "a" * 1_880)
        ImageBlock.from_url("data:image/png;base64," + "A" * 4_000)
    assert [(line["event"], line["characters"], len(line["url"])) for line in logs] == [("long_image_url", 3_000, 100)]


@proves("MSG-38")
def test_large_images_are_accepted_and_logged() -> None:
    data = "A" * 15_000_000
    with capture_logs() as logs:
        image = ImageBlock.from_base64(data, "image/png")
        ImageBlock.from_url(image.url)
        ImageBlock.from_base64(data[:10_000_000], "image/png")
    assert [line["event"] for line in logs] == ["large_image", "large_image"]
    assert logs[0]["decoded_mb"] == 11.2
    assert "data" not in logs[0]


@proves("MSG-39")
def test_with_detail_returns_a_new_image() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    for detail in ImageDetail:
        changed = image.with_detail(detail.value)
        assert changed.detail is detail
        assert changed.source == image.source
        assert changed.source is not image.source
        assert LLMMessage.model_validate_json(LLMMessage.user_with_blocks([changed]).model_dump_json()).content == [
            changed
        ]
    assert image.detail is ImageDetail.AUTO
    assert "image detail must be one of low, high, auto" in refusal(lambda: image.with_detail("huge"))


def image_message(source: Base64Source | UrlSource) -> LLMMessage:
    return LLMMessage.user_with_blocks([ImageBlock(source=source)])


@proves("MSG-40")
@pytest.mark.parametrize(
    ("source", "field", "invalid"),
    [
        (Base64Source.new("image/png", "AAAA"), "data", "not base64!"),
        (UrlSource.new("https://example.com/a"), "url", "file:///etc/passwd"),
    ],
)
def test_a_source_is_checked_again_only_when_it_holds_another_string(source: Any, field: str, invalid: str) -> None:
    message = image_message(source.model_copy())
    changed: Any = message.content[0].source  # type: ignore[union-attr]
    setattr(changed, field, invalid)
    with pytest.raises(InvalidMessageError) as caught:
        assert_valid_messages([message])
    assert caught.value.path == f"messages[0].content[0].source.{field}"
    changed._checked = Checked(invalid)  # what it remembers is not looked at again
    assert_valid_messages([message])


@proves("MSG-40")
def test_copies_and_pickles_remember_and_equality_does_not_see_it() -> None:
    source = Base64Source.new("image/png", "AAAA")
    copies: list[Any] = [copy_messages([image_message(source)])[0], pickle.loads(pickle.dumps(image_message(source)))]
    for made in copies:
        remembered = made.content[0].source
        assert remembered._checked.text is remembered.data
    unchecked = Base64Source.model_construct(media_type="image/png", data="AAAA")
    assert unchecked._checked is None
    assert unchecked == source
    assert source == unchecked
    assert "_checked" not in source.model_dump_json()
    assert repr(source._checked) == "Checked(...)"
    assert source._checked != "AAAA"
