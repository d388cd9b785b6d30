"""Times scikit-learn's ExtraTreesRegressor on the data of `forest.rs`, to compare with `cargo bench --bench forest`.

    python3 -m venv /tmp/sklearn && /tmp/sklearn/bin/pip install scikit-learn
    /tmp/sklearn/bin/python benches/compare_sklearn.py
"""

import math
import pickle
import time

import numpy
import sklearn
from sklearn.ensemble import ExtraTreesRegressor


def profile(rows):
    networks, batches = -(-rows // 25), 25
    size = [1.0 + (row // batches % networks) * 0.37 for row in range(rows)]
    batch = [2.0 + row % batches * 5.0 for row in range(rows)]
    features = [[size[r] ** (1.0 + f / 28.0) * (1e4 + batch[r] * (1 + f % 7)) for f in range(56)] for r in range(rows)]
    work = [s * b for s, b in zip(size, batch)]
    target = [100.0 + w + 30.0 * math.sin(w / 50.0) for w in work]
    return numpy.array(features), numpy.array(target)


def best(repeats, action):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


print(f"scikit-learn {sklearn.__version__}, best of several, milliseconds")
for rows in (44, 1100):
    features, target = profile(rows)
    forest = ExtraTreesRegressor(n_estimators=300, random_state=1, n_jobs=2)
    print(f"fit 300 trees on {rows} rows x 56: {best(3, lambda: forest.fit(features, target)):.1f}")
    forest.n_jobs = 1
    print(f"predict one row: {best(20, lambda: forest.predict(features[:1])):.2f}")
    saved = pickle.dumps(forest)
    nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    print(f"load forest of {rows} rows, {nodes} nodes, {len(saved) // 1000} kB: {best(3, lambda: pickle.loads(saved)):.1f}")
