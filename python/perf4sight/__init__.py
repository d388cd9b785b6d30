"""What training or running a PyTorch module will cost on a device — latency, memory, whether it fits at all — before it runs there.

    import perf4sight, torch

    perf4sight.predict(model, torch.randn(16, 3, 224, 224), fingerprint="fingerprinting/orin/imagenet", optimizer="adamw", mem_limit="8GiB")
    perf4sight.advise(model, inputs, target="orin", mem_limit="8GiB")
    perf4sight.estimate_memory(model, inputs, optimizer=optimizer).fits("8GiB")

Everything is answered by the program `perf4sight`, which is installed with this package; the module reads the network from PyTorch and
changes nothing of it. Answers are data, print as tables, and show as such in notebooks. `Profiler` marks iterations of a script for
`perf4sight record`.
"""
from ._advice import Advice, Way, advise
from ._answers import Devices, MemoryEstimate, Point, Prediction, Share
from ._asking import estimate_memory, predict
from ._errors import Error, NetworkError, ProgramError
from ._measuring import Measurement, Profile, profile
from ._profiler import Profiler
from ._pruning import prune

__all__ = [
    "Advice", "Devices", "Error", "Measurement", "MemoryEstimate", "NetworkError", "Point", "Prediction", "Profile", "Profiler", "ProgramError", "Share",
    "Way", "advise", "estimate_memory", "predict", "profile", "prune",
]
