#!/usr/bin/env python3
"""How fast two ranks of gloo on this machine reduce gradients as floats and as halves: python3 benches/gloo_halves.py"""
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

ELEMENTS, TIMES, PORT = 6_250_000, 15, 29471


def reduced(kind):
    """Median seconds of an all-reduce."""
    gradients, seconds = torch.ones(ELEMENTS, dtype=kind), []
    for _ in range(TIMES):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(gradients)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def run(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        seconds = reduced(kind)
        if rank == 0:
            size = ELEMENTS * kind.itemsize
            print("%s: %.1f ms for %.0f MB, %.2f ns a byte" % (kind, 1e3 * seconds, size / 1e6, 1e9 * seconds / size))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, nprocs=2)
