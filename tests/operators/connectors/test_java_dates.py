import pytest

from penstock.operators.connectors.file_sink_settings import JavaDateFormat


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2023-11-14--22"),
        ("yyyy-MM-dd--HH", "America/Los_Angeles", "2023-11-14--14"),
        ("'y='yyyy/'d='MM_dd EEE HHmm a z", "America/Los_Angeles", "y=2023/d=11_14 Tue 1413 PM PST"),
        ("yy M d h:m:s.SSS ''''", "GMT-08:00", "23 11 14 2:13:20.123 '"),
        ("uuuu MMM MMMM MMMMM EEEE D k K", "+01:00", "2023 Nov November N Tuesday 318 23 11"),
        ("Z XXX x VV", "Europe/Berlin", "+0100 +01:00 +01 Europe/Berlin"),
        ("X", "Z", "Z"),
    ],
)
def test_dates(pattern, zone, expected):
    assert JavaDateFormat(pattern, zone).text(1_700_000_000_123) == expected


@pytest.mark.parametrize(
    ("pattern", "zone"), [("yyyy[MM]", None), ("w", None), ("zzzz", None), ("yyyy", "PST")]
)
def test_dates_that_are_refused(pattern, zone):
    with pytest.raises(ValueError, match=r"not supported|unknown"):
        JavaDateFormat(pattern, zone)
