from __future__ import annotations

import pytest

from api.content_disposition import parse_disposition


def file_name(parameters: str | bytes) -> str | None:
    raw = parameters if isinstance(parameters, bytes) else parameters.encode()
    return parse_disposition(b'form-data; name="files"; ' + raw).file_name


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ('filename="report.pdf"', "report.pdf"),
        ("filename=report.pdf", "report.pdf"),
        ('filename="年度报告.pdf"', "年度报告.pdf"),
        ("filename*=UTF-8''%E5%B9%B4%E6%8A%A5.pdf", "年报.pdf"),
        ("filename=\"x.pdf\"; filename*=utf-8'zh'%E5%B9%B4%E6%8A%A5.pdf", "年报.pdf"),
        ("filename*=GBK''%C4%EA%B1%A8.pdf", "年报.pdf"),
        ('filename="%E5%B9%B4%E6%8A%A5.pdf"', "年报.pdf"),
        ('filename="a%22b.txt"', 'a"b.txt'),
        ('filename="50%25 off %20.txt"', "50%25 off %20.txt"),
        (r'filename="say \"hi\".txt"', 'say "hi".txt'),
        (r'filename="C:\docs\plan.txt"', r"C:\docs\plan.txt"),
        ('filename="a;b=c.txt"', "a;b=c.txt"),
        ('filename=""', ""),
        ("", None),
    ],
)
def test_a_file_name_is_read_as_every_client_writes_it(parameters: str, expected: str | None) -> None:
    assert file_name(parameters) == expected


def test_a_name_in_the_encoding_of_an_old_chinese_system_is_still_read() -> None:
    assert file_name('filename="年报.pdf"'.encode("gbk")) == "年报.pdf"


def test_a_name_in_latin_1_is_still_read() -> None:
    assert file_name('filename="caf\xe9.txt"'.encode("latin-1")) == "café.txt"


def test_an_unknown_charset_is_read_as_utf_8() -> None:
    assert file_name("filename*=klingon''%E5%B9%B4.txt") == "年.txt"


def test_the_field_name_is_given_and_none_where_there_is_none() -> None:
    assert parse_disposition(b'form-data; name="files"').name == "files"
    assert parse_disposition(b"form-data; name=files; filename=a").name == "files"
    assert parse_disposition(b"form-data").name is None
    assert parse_disposition(b"").name is None
