"""A small training script for several ranks on processors: a transformer under DDP or FSDP2, with gloo.

    perf4sight replay --record -- torchrun --nproc-per-node 2 examples/ranks/train.py
    perf4sight replay --record -- torchrun --nproc-per-node 2 examples/ranks/train.py --parallel fsdp2

`--sleep-rank 1 --sleep-ms 50` makes a rank wait before every forward pass, as a busy disk would.
"""

import argparse
import json
import pathlib
import time

import torch
from torch import distributed, nn

TOKENS, WORDS = 64, 1000


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        normal = self.before_attention(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


def model(layers, width):
    blocks = [Block(width) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(WORDS, width), *blocks, nn.Linear(width, WORDS))


def parallel(network, options):
    if options.parallel == "ddp":
        return nn.parallel.DistributedDataParallel(network, bucket_cap_mb=options.bucket_cap_mb)
    from torch.distributed.fsdp import fully_shard

    for module in network:
        fully_shard(module)
    return fully_shard(network)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", choices=["ddp", "fsdp2"], default="ddp")
    parser.add_argument("--bucket-cap-mb", type=float, default=25)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--times", help="where each rank writes the seconds of its steps: this name, and its number")
    parser.add_argument("--sleep-rank", type=int)
    parser.add_argument("--sleep-ms", type=float, default=0)
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(0)
    network = parallel(model(options.layers, options.width), options)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(rank)
    ends = [time.perf_counter()]
    for _ in range(options.steps):
        words, next_words = torch.randint(WORDS, (2, options.batch, TOKENS))
        if rank == options.sleep_rank:
            time.sleep(options.sleep_ms / 1000)
        loss = nn.functional.cross_entropy(network(words).flatten(0, 1), next_words.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
    if options.times:
        pathlib.Path(f"{options.times}{rank}").write_text(json.dumps([end - begin for begin, end in zip(ends, ends[1:])]))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
