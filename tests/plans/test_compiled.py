"""Compiled loops outlive a change of what they were compiled from."""

import pickle

import numba
import numpy as np

from penstock.plans import compiled as module


def fill(out):
    for place in range(len(out)):
        out[place] = place


def test_an_index_that_names_classes_that_have_gone_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    out = np.zeros(3, np.int64)
    module._compile.__wrapped__(fill)(out)
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"cpenstock.no_such_module\nGone\n.")
    again = module._compile.__wrapped__(fill)
    out[:] = 0
    again(out)
    assert out.tolist() == [0, 1, 2]
