import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.encoding_detection import decode_text, looks_like_text

SIMPLIFIED = [
    "测试文件",
    "费用报销制度",
    "员工出差住宿标准为每晚四百元，超出部分自理。",
    "话说天下大势，分久必合，合久必分。周末七国分争，并入于秦。",
    "Revenue 收入 2024\nProfit 利润 100\n",
]
TRADITIONAL = [
    "員工出差住宿標準為每晚四百元",
    "維基百科是一個自由內容的百科全書",
    "話說天下大勢，分久必合，合久必分",
]
JAPANESE = ["経費精算の規定", "吾輩は猫である。名前はまだ無い。", "売上高は前年比で増加した"]
KOREAN = ["안녕하세요 세계", "출장 숙박비는 하루 십만원입니다."]
RUSSIAN = ["Привет, мир", "Все счастливые семьи похожи друг на друга"]
WESTERN = ["Die schöne Frau hat einen Kaffee", "“Quoted” text – it’s", "El señor comió en el café"]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((text, encoding) for text in SIMPLIFIED for encoding in ("gbk", "gb18030", "utf-8", "utf-16")),
        *((text, "big5") for text in TRADITIONAL),
        *((text, encoding) for text in JAPANESE for encoding in ("shift_jis", "euc_jp", "iso2022_jp")),
        *((text, "euc_kr") for text in KOREAN),
        *((text, encoding) for text in RUSSIAN for encoding in ("cp1251", "koi8_r", "cp866")),
        *((text, "cp1252") for text in WESTERN),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("في قرية من القرى", "cp1256"),
        ("Plain ASCII", "ascii"),
    ],
)
def test_text_survives_its_encoding(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding)).text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["DateTime,Bid,Ask\r\n1,2,3\r\n", "员工出差住宿标准为每晚四百元，超出部分自理。"]
)
def test_utf16_is_known_without_a_mark(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding)).text == text


def test_long_texts_are_certain() -> None:
    for text, encoding in [(SIMPLIFIED[2] * 50, "gb18030"), (TRADITIONAL[0] * 50, "big5hkscs")]:
        decoded = decode_text(text.encode(encoding))
        assert (decoded.encoding, decoded.warning) == (encoding, "")


def test_damaged_utf8_is_still_utf8_and_the_damage_is_told() -> None:
    data = (SIMPLIFIED[2] * 20).encode()
    decoded = decode_text(data[:100] + b"\xff\xfe\xfd" + data[102:])
    assert decoded.encoding == "utf-8"
    assert "U+FFFD" in decoded.warning
    assert "超出部分自理" in decoded.text


def test_a_declared_encoding_is_used_where_it_fits() -> None:
    assert decode_text("né".encode("latin-1"), declared="ISO-8859-1").text == "né"
    assert decode_text("né".encode("latin-1"), declared="ISO-8859-1").warning == ""


@pytest.mark.parametrize("declared", ["no-such-encoding", "utf-8", ""])
def test_a_declaration_that_does_not_fit_is_passed_over(declared: str) -> None:
    assert decode_text(SIMPLIFIED[2].encode("gbk"), declared=declared).text == SIMPLIFIED[2]


def test_too_little_evidence_is_a_warning() -> None:
    assert decode_text("né".encode("cp1252")).warning


@given(st.binary(max_size=300))
def test_any_bytes_become_text(data: bytes) -> None:
    assert isinstance(decode_text(data).text, str)
    assert isinstance(looks_like_text(data), bool)


@given(st.text(max_size=200).filter(lambda text: "\x00" not in text and "\x1b" not in text))
def test_valid_utf8_is_never_taken_for_anything_else(text: str) -> None:
    assert decode_text(text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore").encode()).encoding in {
        "utf-8",
        "utf-8-sig",
    }


def test_evidence_is_looked_for_beyond_a_long_ascii_beginning() -> None:
    text = "x" * 2_000_000 + "\n" + SIMPLIFIED[2] * 3
    assert decode_text(text.encode("gb18030")).text == text
