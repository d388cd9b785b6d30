#!/usr/bin/env python3
"""How far off a fingerprint's answers are for steps that nobody profiled: each is timed next to the published step, on one thread.

    python3 scripts/other_steps.py FINGERPRINT FOLDER/NETWORK.onnx ...
    python3 scripts/other_steps.py --without-each CONFIGURATION FOLDER/NETWORK.onnx ...

With a configuration instead of a fingerprint, such as benches/epyc-1-core.ini, each network is asked about by a fingerprint that is fitted to the rows of the
others alone: what is said of networks that nobody profiled.

Compared is by what factor a step takes longer or shorter than the published one, as the median of three turns that time both
one after the other: the machine's speed of the hour cancels, and one disturbed turn does not count.
"""
import argparse
import ast
import configparser
import json
import os
import statistics
import subprocess
import tempfile

PROGRAM, WORKER = "target/debug/perf4sight", "target/debug/perf4sight-worker"
BATCHES = (4, 16)
STEPS = [
    {"optimizer": "adamw", "zero_grad": "free"},
    {"trainable": "last 10"},
    {"trainable": "classifier"},
    {"accumulate": 4},
    {"checkpoint": "4 segments"},
    {"checkpoint": "every block"},
]


def options(step):
    return [word for key, value in step.items() for word in ("--" + key.replace("_", "-"), str(value))]


def answered(command, step):
    answer = subprocess.run([PROGRAM] + command + ["--json"] + options(step), stdout=subprocess.PIPE, universal_newlines=True)
    return json.loads(answer.stdout)


def measured(network, batch, step):
    """Milliseconds of a step, cut where perf4sight cuts it."""
    cuts = answered(["inspect", network, "--stage", "training", "--bs", str(batch)], step)["cuts"]
    rule = {"minimum": 3, "minimum_seconds": 1.0, "spread": 0.02, "maximum_seconds": 4.0}
    request = dict(protocol=2, place="cpu", threads=1, mem_limit=None, seed=0, task="step", network=network, stage="training",
                   batch=batch, latency=True, memory=False, layers=False, steps=rule, cuts=cuts, **step)
    reply = subprocess.run([WORKER], input=json.dumps(request) + "\n", stdout=subprocess.PIPE, universal_newlines=True)
    return json.loads(reply.stdout)["latency"]["median"]


def measured_factor(network, batch, step):
    return statistics.median(measured(network, batch, step) / measured(network, batch, {}) for _ in range(3))


def predicted(fingerprint, network, batch, step):
    answer = answered(["predict", network, "--fingerprint", fingerprint, "--bs", str(batch)], step)
    return answer["networks"][0]["predictions"][0]["latency_ms"]


def fitted_without(network, configuration, folder):
    """The fingerprint of a configuration's rows, without those of one network; its file is called after it."""
    sections = configparser.ConfigParser(interpolation=None)
    sections.read(configuration)
    own = os.path.splitext(os.path.basename(network))[0]
    others = [name for name in ast.literal_eval(sections["fingerprint"]["train_nets"]) if name != own]
    settings = {"train_nets": others, "eval_nets": others, "model_storedir": os.path.join(folder, own)}
    sets = [word for key, value in settings.items() for word in ("--set", "fingerprint.%s=%s" % (key, value))]
    command = ["--config-file", configuration, "--only", "create_network_dataset", "--only", "fingerprint"]
    subprocess.run([PROGRAM] + command + sets, check=True, stdout=subprocess.DEVNULL)
    return settings["model_storedir"]


def asked():
    parser = argparse.ArgumentParser(description="errors of the times of steps that nobody profiled")
    parser.add_argument("--without-each", action="store_true", help="fit a fingerprint without each network, by a configuration")
    parser.add_argument("fingerprint", help="a folder, or a configuration")
    parser.add_argument("networks", nargs="+")
    return parser.parse_args()


def main():
    asks = asked()
    with tempfile.TemporaryDirectory() as folder:
        fingerprints = {network: asks.fingerprint for network in asks.networks}
        if asks.without_each:
            fingerprints = {network: fitted_without(network, asks.fingerprint, folder) for network in asks.networks}
        compare(fingerprints)


def compare(fingerprints):
    print("| network | batch | step | measured | predicted | error |\n|---|---|---|---|---|---|")
    errors = {}
    for network, fingerprint in fingerprints.items():
        for batch in BATCHES:
            published = predicted(fingerprint, network, batch, {})
            for step in STEPS:
                factors = measured_factor(network, batch, step), predicted(fingerprint, network, batch, step) / published
                name = ", ".join("%s = %s" % pair for pair in step.items())
                error = 100 * (factors[1] / factors[0] - 1)
                errors.setdefault(name, []).append(abs(error))
                print("| %s | %d | %s | x %.3f | x %.3f | %+.1f %% |" % ((network.split("/")[-1], batch, name) + factors + (error,)), flush=True)
    for name, found in errors.items():
        print("%s: off by %.1f %% on average, %.1f %% at worst" % (name, sum(found) / len(found), max(found)))


if __name__ == "__main__":
    main()
