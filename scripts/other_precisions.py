#!/usr/bin/env python3
"""How far off a fingerprint's answers are at a precision that nobody profiled, once four rows of it have calibrated the fingerprint: two batch sizes of
each of two networks. Every pair of networks calibrates, and is asked about all the others, or about networks that never calibrate.

    python3 scripts/other_precisions.py FINGERPRINT PRECISION FOLDER/NETWORK.onnx ... [--asked FOLDER/OTHER.onnx ...]

A row is what is predicted of the published step of the same network, times the factor by which the step takes longer or shorter, as the median of three turns that
time both one after the other: the machine's speed of the day, and what a network has of its own, cancel.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

import other_steps

COLUMNS = "passed|latency|test_var|bs|dataset|net_name|model|stage|steps|spread|outcome|step"
ROW = "True|%f|latency|%d|imagenet|%s|%s|training|3|0.01|measured|precision=%s"


def name(network):
    return os.path.splitext(os.path.basename(network))[0]


def timed(fingerprint, precision, networks):
    """Milliseconds of every network and batch size at the precision, as fast as the machine was when it was profiled."""
    times = {}
    for network, batch in itertools.product(networks, other_steps.BATCHES):
        factor = other_steps.measured_factor(network, batch, {"precision": precision})
        times[network, batch] = factor * other_steps.predicted(fingerprint, network, batch, {})
        print("| %s | %d | x %.3f |" % (name(network), batch, factor), file=sys.stderr, flush=True)
    return times


def calibrated(fingerprint, precision, network, times, folder):
    """The folder of the fingerprint with the rows of one more network."""
    rows = [ROW % (times[network, batch], batch, name(network), name(network) + "_0.onnx", precision) for batch in other_steps.BATCHES]
    file, saved = os.path.join(folder, name(network) + "_0-gt.csv"), os.path.join(folder, name(network))
    with open(file, "w") as csv:
        csv.write("\n".join([COLUMNS] + rows) + "\n")
    command = ["calibrate", network, "--fingerprint", fingerprint, "--precision", precision, "--rows", file, "--save", saved]
    subprocess.run([other_steps.PROGRAM] + command, check=True, stdout=subprocess.DEVNULL)
    return saved


def asked(fingerprint, precision, network, batch):
    command = ["predict", network, "--fingerprint", fingerprint, "--bs", str(batch)]
    answer = other_steps.answered(command, {"precision": precision})["networks"][0]["predictions"][0]
    return answer["latency_ms"], answer["latency_low_ms"], answer["latency_high_ms"]


def main():
    parser = argparse.ArgumentParser(description="errors of the times of steps at a precision that nobody profiled")
    parser.add_argument("fingerprint")
    parser.add_argument("precision")
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--asked", nargs="+", default=[], help="networks that are asked about and never calibrate, in place of all the others")
    given = parser.parse_args()
    fingerprint, precision, networks = given.fingerprint, given.precision, given.networks
    times = timed(fingerprint, precision, networks + given.asked)
    errors, held = [], 0
    print("| calibrated with | mean error | worst | network, batch |\n|---|---|---|---|")
    for pair in itertools.combinations(networks, 2):
        with tempfile.TemporaryDirectory() as folder:
            known = fingerprint
            for network in pair:
                known = calibrated(known, precision, network, times, folder)
            found = []
            for network, batch in itertools.product(given.asked or [network for network in networks if network not in pair], other_steps.BATCHES):
                likely, low, high = asked(known, precision, network, batch)
                held += low <= times[network, batch] <= high
                found.append((100 * (likely / times[network, batch] - 1), name(network), batch))
        worst = max(found, key=lambda one: abs(one[0]))
        mean = sum(abs(one[0]) for one in found) / len(found)
        print("| %s | %.1f %% | %+.1f %% | %s, %d |" % ((" and ".join(map(name, pair)), mean) + worst), flush=True)
        errors += [abs(one[0]) for one in found]
    print("off by %.1f %% on average, %.1f %% at worst; %d of %d intervals hold" % (sum(errors) / len(errors), max(errors), held, len(errors)))


if __name__ == "__main__":
    main()
