"""Cached files in Flink's configuration, as Flink reads them."""

import pytest

from penstock.plans.topology.flink_options import FlinkValueError, parse_cached_files, split_escaped


def test_cached_files():
    assert parse_cached_files("name:a,path:'file:///x';name:b,path:\"hdfs:///y\",executable:true") == {
        "a": "file:///x",
        "b": "hdfs:///y",
    }
    assert split_escaped("'it''s';b ; c", ";") == ["it's", "b", "c"]
    assert split_escaped(";a;;b; ", ";") == ["a", "", "b"]
    assert parse_cached_files("path:b") == {"": "b"}
    for wrong in (
        "foo",
        "name:a",
        "name:a,path:x;name:a,path:y",
        "name:a,path:'x",
        "name:a,path:'x'y",
    ):
        with pytest.raises(ValueError, match=r"\w"):
            parse_cached_files(wrong)


#: What Flink 2.3.0 said to these values of pipeline.cached-files: a plan, or its exception and message.
CACHED_FILES = {
    "[]": {},
    "- name:a,path:b\n- name:c,path:d": {"a": "b", "c": "d"},
    "['name:a,path:b', 'name:c,path:d']": {"a": "b", "c": "d"},
    "[{name: a, path: b}]": {"a": "b"},
    "- name: a\n  path: b": {"a": "b"},
    "- |\n  name: a\n  path: b": {"a": "b"},
    "name: a\npath: b": {"a": "b"},
    "%YAML 1.2\n---\n- name:a,path:b": {"a": "b"},
    "['path: 0x10']": {"": "16"},
    "['path: TRUE']": {"": "true"},
    "['path: ~']": {"": "~"},
    "['path: yes']": {"": "yes"},
    "['path: 2020-01-01']": {"": "2020-01-01"},
    "['path: 1_000']": {"": "1_000"},
    "['path: [a, b]']": {"": "[a, b]"},
    "name:a,path:'C:/x'": {"a": "C:/x"},
    "name:a,path:'/x y%?z#'": {"a": "/x y%?z#"},
    "name:a,path:'a/b:c'": {"a": "a/b:c"},
    "name:a,path:'hdfs://[::1]:80/x'": {"a": "hdfs://[::1]:80/x"},
    "name:a,path:'s3://bucket_x%/y'": {"a": "s3://bucket_x%/y"},
    "['{path: a, path: b}']": {"": "b}"},
    "[name:a,path:b]": "Can not create a Path from a null string",
    "['']": "Can not create a Path from a null string",
    "- name:a,path:b;name:c,path:d": "Map item is not a key-value pair (missing ':'?)",
    "['path: {a: b}']": "java.net.URISyntaxException: Relative path in absolute URI: {a:%20b%7D",
    "name:a,path:'file:x'": "java.net.URISyntaxException: Relative path in absolute URI: file:x",
    "name:a,path:'file:'": "java.net.URISyntaxException: Expected scheme-specific part at index 5: file:",
    "name:a,path:'://x'": "java.net.URISyntaxException: Expected scheme name at index 0: ://x",
    "name:a,path:'1a:/x'": "java.net.URISyntaxException: Illegal character in scheme name at index 0: 1a:/x",
    "name:a,path:'é:/x'": "java.net.URISyntaxException: Illegal character in scheme name at index 0: é:/x",
    "name:a,path:'a_b:/x'": (
        "java.net.URISyntaxException: Illegal character in scheme name at index 1: a_b:/x"
    ),
    "name:n,path:'[#@s3:'": "java.net.URISyntaxException: Illegal character in path at index 0: [#@s3:",
    "name:n,path:'? #:'": "java.net.URISyntaxException: Illegal character in query at index 1: ? #:",
    "name:a,path:'s3://[]/y'": (
        "java.net.URISyntaxException: Expected closing bracket for IPv6 address at index 6: s3://[]/y"
    ),
    "name:a,path:'s3://[x]/y'": "java.net.URISyntaxException: Malformed IPv6 address at index 6: s3://[x]/y",
    "name:a,path:'s3://[::1]:ab/y'": (
        "java.net.URISyntaxException: Illegal character in port number at index 11: s3://[::1]:ab/y"
    ),
    "name:a,path:'s3://[::1]x/y'": (
        "java.net.URISyntaxException: Expected port number at index 10: s3://[::1]x/y"
    ),
    "name:a,path:'s3://a[b]/y'": (
        "java.net.URISyntaxException: Illegal character in hostname at index 6: s3://a[b]/y"
    ),
    "name:n,path:'//80]1::1s3:@'": (
        "java.net.URISyntaxException: Illegal character in user info at index 4: //80]1::1s3:@"
    ),
    "name:a,path:'//host'": (
        'Cannot invoke "org.apache.flink.core.fs.Path.getPath()" because "rootDir" is null'
    ),
}  # fmt: skip


@pytest.mark.parametrize("value", CACHED_FILES)
def test_cached_files_as_flink_reads_them(value: str):
    expected = CACHED_FILES[value]
    if isinstance(expected, dict):
        assert parse_cached_files(value) == expected
        return
    with pytest.raises(FlinkValueError) as caught:
        parse_cached_files(value)
    assert caught.value.flink_message == expected


@pytest.mark.slow
@pytest.mark.parametrize("value", ["[" * 5000, "[1" + "0" * 5000 + "]", "&a [" * 40 + "*a", "'\x00'"])
def test_strange_yaml_ends_nothing(value: str):
    with pytest.raises(ValueError, match=r"\w"):
        parse_cached_files(value)
