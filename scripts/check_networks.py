#!/usr/bin/env python3
"""Looks at network files as other tools do: is each accepted by onnx.checker in full, and does onnxruntime run it?

    python scripts/check_networks.py target/exports/pruned

Weights are drawn at random where the file has none. Prints a line for every file that something is wrong with, and how many are right.
Needs onnx, onnxruntime and numpy; operations of domains of our own or of others are known to neither and passed over.
"""
import glob
import os
import sys

import numpy
import onnx
import onnxruntime


def given(value):
    """Numbers for an input of a session: images of a batch of one, weights that let numbers neither grow nor vanish."""
    dims = [dim if isinstance(dim, int) else 1 for dim in value.shape]
    if "bool" in value.type:
        return numpy.ones(dims, numpy.bool_)
    if "int" in value.type:
        return numpy.zeros(dims, numpy.int64)
    return numpy.random.uniform(0.01, 0.02, dims).astype(numpy.float32)


def wrong(path):
    """What is wrong with a file, in one line; None where all is well."""
    try:
        onnx.checker.check_model(path, full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        results = session.run(None, {value.name: given(value) for value in session.get_inputs()})
    except Exception as problem:  # whatever the tools say is one of the results
        return str(problem).splitlines()[0]
    return None if results[0].size else "gives nothing"


def main(folder):
    counted = {"right": 0, "wrong": 0, "foreign": 0}
    for path in sorted(glob.glob(os.path.join(folder, "*.onnx"))):
        if any(domain.domain for domain in onnx.load(path, load_external_data=False).opset_import):
            counted["foreign"] += 1
            continue
        problem = wrong(path)
        counted["wrong" if problem else "right"] += 1
        if problem:
            print(os.path.basename(path), problem, flush=True)
    print(counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
