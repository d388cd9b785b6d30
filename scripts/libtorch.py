#!/usr/bin/env python3
"""Lays out a libtorch tree without a GPU from the PyTorch wheel, through pip and whatever index it is configured for.

Usage: libtorch.py VERSION FOLDER [MACHINE]      MACHINE: x86_64 or aarch64, by default the one this runs on

The wheel is a CUDA build, but its CPU library needs only two small CUDA libraries, which are packages of their own.
The tree is built next to its final place and renamed there when whole, so that a half-finished one is never used.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

DOWNLOAD_MB = {"x86_64": 545, "aarch64": 435}
# pip holds the wheel twice for a moment; the tree itself takes 500 MB.
DISK_MB = 1200
# Any Python can unzip, so wheels are asked for by tags instead of by the Python at hand.
PYTHON_TAGS = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"]
GLIBC_TAGS = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_17", "manylinux2014"]
# The CPU half of PyTorch and what it loads (the last two on aarch64), by the NEEDED entries of its libraries.
# Not libtorch_cuda.so: torch-sys links it if it sees it.
LIBRARIES = re.compile(r"/lib(torch_cpu|c10|gomp|cudart|cupti|arm_compute\w*|nvpl_\w+)\.so[.\d]*$")
HEADERS = "torch/include/"


def main(version, target, machine):
    scratch = target.with_name(target.name + ".part")
    scratch.mkdir(parents=True, exist_ok=True)
    lock = os.open(scratch, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not is_whole(version, target):
        announce(version, target, machine)
        for wheel in download(version, scratch, machine):
            unpack(wheel, scratch / "tree")
        shutil.rmtree(target, ignore_errors=True)
        finish(version, scratch / "tree").rename(target)
        say(f"libtorch {version} is ready in {target}")
    shutil.rmtree(scratch, ignore_errors=True)


def is_whole(version, tree):
    stamp = tree / "build-version"
    return stamp.exists() and stamp.read_text().strip() == version


def say(text):
    print(text, file=sys.stderr, flush=True)


def announce(version, target, machine):
    """Says what comes, and stops where there is no recipe or no room."""
    if platform.system() != "Linux" or machine not in DOWNLOAD_MB:
        stop(f"no libtorch recipe for {platform.system()} on {machine}", f"set LIBTORCH to a libtorch {version} tree")
    free = shutil.disk_usage(target.parent).free // 10**6
    say(f"fetching libtorch {version} for {machine}, once: {DOWNLOAD_MB[machine]} MB to download, {DISK_MB} MB of disk while unpacking,"
        f" 500 MB afterwards, in {target} ({free} MB free)")
    if free < DISK_MB:
        stop(f"only {free} MB are free in {target.parent}",
             f"free {DISK_MB - free} MB more, or set LIBTORCH to a libtorch {version} tree elsewhere")


def stop(problem, remedy):
    sys.exit(f"error: {problem}\n  help: {remedy}")


def download(version, scratch, machine):
    """Fetches the wheels; pip checks their hashes, and takes a whole wheel of an interrupted run as it is."""
    packages = [f"torch=={version}", "nvidia-cuda-runtime==13.0.*", "nvidia-cuda-cupti==13.0.*"]
    platforms = [word for tag in GLIBC_TAGS for word in ("--platform", f"{tag}_{machine}")]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--dest", str(scratch)]
    # pip stages what it downloads in TMPDIR, and /tmp is often small.
    result = subprocess.run(command + PYTHON_TAGS + platforms + packages, stdout=sys.stderr,
                            env={**os.environ, "TMPDIR": str(scratch)})
    if result.returncode != 0:
        stop("pip could not fetch libtorch (its own words are above)",
             f"check the network and pip's configuration and run again, or set LIBTORCH to a libtorch {version} tree")
    return sorted(scratch.glob("*.whl"))


def unpack(wheel, tree):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(HEADERS) and not name.endswith("/"):
                write(archive, name, tree / "include" / name[len(HEADERS):])
            elif LIBRARIES.search(name):
                write(archive, name, tree / "lib" / Path(name).name)


def write(archive, name, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, open(path, "wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def finish(version, tree):
    """Adds the names the linker looks for, and the version that torch-sys checks."""
    # The wheel's own libtorch.so is an empty library that pulls in the CUDA half.
    for link, library in [("libtorch.so", "libtorch_cpu.so"), ("libgomp.so", "libgomp.so.1")]:
        path = tree / "lib" / link
        path.unlink(missing_ok=True)
        path.symlink_to(library)
    (tree / "build-version").write_text(version + "\n")
    return tree


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else platform.machine())
