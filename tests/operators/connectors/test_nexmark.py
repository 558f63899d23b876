import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.connectors import nexmark as event_ids
from penstock.operators.connectors.nexmark import (
    CITIES,
    HOT_CHANNELS,
    STATES,
    TYPES,
    Dice,
    NexmarkSource,
    event_numbers,
    last_auction,
    last_person,
)
from penstock.operators.formats.csv_files import Chunk
from tests.operators.connectors.run_connectors import context, read_batches, read_values, travel

EVENTS = 500_000
BASE_TIME = 1_436_918_400_000


def table(kind, parallelism=1, **settings):
    batches = read_batches(NexmarkSource(kind, settings.pop("events", EVENTS), **settings), parallelism)
    return pa.Table.from_batches(batches)


def test_one_person_three_auctions_and_46_bids_of_50():
    assert [len(table(kind)) for kind in ("person", "auction", "bid")] == [10_000, 30_000, 460_000]
    assert [len(table(kind, events=53)) for kind in ("person", "auction", "bid")] == [2, 5, 46]
    assert read_values(NexmarkSource("bid", 0), 3) == []
    assert read_values(NexmarkSource("bid", 4), 3) == []
    kinds = {kind: event_numbers(kind, 100, 250).tolist() for kind in TYPES}
    assert sorted(number for numbers in kinds.values() for number in numbers) == list(range(100, 250))
    assert kinds["person"] == [100, 150, 200]
    assert kinds["auction"][:4] == [101, 102, 103, 151]


@pytest.mark.parametrize("kind", ["person", "auction", "bid"])
@pytest.mark.parametrize("parallelism", [2, 5])
def test_events_do_not_depend_on_parallelism(kind, parallelism):
    events = 40_000 if kind == "bid" else EVENTS
    key = "auction" if kind == "bid" else "id"
    once = table(kind, events=events).sort_by(
        [("date_time", "ascending"), (key, "ascending"), ("extra", "ascending")]
    )
    again = table(kind, parallelism, events=events)
    assert once == again.sort_by([("date_time", "ascending"), (key, "ascending"), ("extra", "ascending")])


def test_events_do_not_depend_on_the_batch_they_are_made_in():
    source = NexmarkSource("bid", 10_000, seed=7)
    numbers = event_numbers("bid", 0, 10_000)
    whole = source.make(numbers)
    parts = [source.make(numbers[start : start + 77]) for start in range(0, len(numbers), 77)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole])
    assert whole == travel(source).make(numbers)


def test_another_seed_gives_other_events_of_the_same_times():
    one, two = table("bid", seed=1, events=5000), table("bid", seed=2, events=5000)
    assert one["date_time"] == two["date_time"]
    assert one["price"] != two["price"]
    assert one["auction"] != two["auction"]


def test_rows_are_the_batches():
    rows = read_values(NexmarkSource("auction", 20_000), 3)
    columns = pa.Table.from_batches(read_batches(NexmarkSource("auction", 20_000), 3)).to_pylist()
    assert [row.as_dict() for row in rows] == columns


@pytest.mark.slow
def test_event_times_rise_and_are_the_timestamps():
    source = NexmarkSource("bid", 50_000, base_time=1000, events_per_second=100)
    for parallelism in (1, 4):
        for subtask, splits in enumerate(source.splits(parallelism)):
            stamps: list[int] = []
            for split in splits:
                for chunk in source.read(split, context(subtask, parallelism)):
                    assert isinstance(chunk, Chunk)
                    assert chunk.timestamps == [row["date_time"] for row in chunk.values]
                    stamps += [row["date_time"] for row in chunk.values]
            assert stamps == sorted(stamps)
            assert stamps[-1] > 1000 + 50_000 * 10 * 0.8, "every subtask spans all of event time"
    first, last = table("person")["date_time"][0].as_py(), table("bid")["date_time"][-1].as_py()
    assert (first, last) == (BASE_TIME, BASE_TIME + (EVENTS - 1) // 10)


def test_ids_are_numbers_in_order():
    people, auctions = table("person"), table("auction")
    assert people["id"].to_pylist() == list(range(1000, 11_000))
    assert auctions["id"].to_pylist() == list(range(1000, 31_000))
    numbers = np.arange(1000, dtype=np.int64)
    assert last_person(numbers).tolist() == [number // 50 for number in range(1000)]
    started = np.cumsum([1 <= number % 50 <= 3 for number in range(1000)]) - 1
    assert last_auction(numbers).tolist() == started.tolist()


def test_bids_are_on_auctions_in_flight_and_half_of_them_on_the_hot_one():
    bids = table("bid")
    numbers = event_numbers("bid", 0, EVENTS)
    newest = last_auction(numbers) + 1000
    auction = bids["auction"].to_numpy()
    assert (auction <= newest + event_ids.ID_LEAD).all()
    assert (auction >= newest - event_ids.AUCTIONS_IN_FLIGHT).all()
    hot = auction == (newest - 1000) // 100 * 100 + 1000
    assert 0.5 < hot.mean() < 0.53
    bidder = bids["bidder"].to_numpy()
    newest = last_person(numbers) + 1000
    assert (bidder <= newest + event_ids.ID_LEAD).all()
    assert (bidder > newest - event_ids.ACTIVE_PEOPLE).all()
    assert 0.74 < (bidder == (newest - 1000) // 100 * 100 + 1001).mean() < 0.78


def test_values_are_nexmarks():
    bids, auctions, people = table("bid"), table("auction"), table("person")
    price = bids["price"].to_numpy()
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    assert abs(np.log10(price / 100).mean() - 3) < 0.02
    channels = np.array(bids["channel"].to_pylist())
    assert 0.49 < np.isin(channels, HOT_CHANNELS).mean() < 0.51
    assert bids["url"][0].as_py().startswith("https://www.nexmark.com/")
    marked = np.array(["&channel_id=" in url for url in bids["url"].to_pylist()])
    assert not marked[np.isin(channels, HOT_CHANNELS)].any()
    assert 0.88 < marked[~np.isin(channels, HOT_CHANNELS)].mean() < 0.92
    category = auctions["category"].to_numpy()
    assert sorted(set(category.tolist())) == [10, 11, 12, 13, 14]
    assert abs((category == 10).mean() - 0.2) < 0.01
    length = auctions["expires"].to_numpy() - auctions["date_time"].to_numpy()
    assert length.min() >= 1
    assert length.max() <= 2 * 167
    assert (auctions["reserve"].to_numpy() > auctions["initial_bid"].to_numpy()).all()
    assert 0.74 < (auctions["seller"].to_numpy() % 100 == 0).mean() < 0.77
    assert set(people["state"].to_pylist()) == set(STATES)
    assert set(people["city"].to_pylist()) == set(CITIES)
    assert all(len(card) == 19 and card[4] == " " for card in people["credit_card"].to_pylist())
    assert all(mail.endswith(".com") and "@" in mail for mail in people["email_address"].to_pylist())
    sizes = {"person": (people, 200), "auction": (auctions, 500), "bid": (bids, 100)}
    for rows, average in sizes.values():
        extra = np.char.str_len(np.array(rows["extra"].to_pylist()[:2000])).mean()
        assert 0.5 * average < extra < average


def test_dice_are_even():
    dice = Dice(5, np.arange(100_000, dtype=np.int64))
    for limit in (2, 6, 1000):
        thrown = np.bincount(dice.below(limit), minlength=limit)
        assert len(thrown) == limit
        assert np.abs(thrown / 100_000 * limit - 1).max() < (0.03 if limit < 10 else 0.5)
    first, second = dice.fraction(), dice.fraction()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.02
    assert first.min() >= 0
    assert first.max() < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("bids", 10), "must be one of person"), (("bid", -1), "negative"), (("bid", 10, 0), "positive")],
)
def test_wrong_settings_are_refused(arguments, message):
    kind, events, *rate = arguments
    with pytest.raises(ValueError, match=message):
        NexmarkSource(kind, events, events_per_second=rate[0] if rate else 1)
