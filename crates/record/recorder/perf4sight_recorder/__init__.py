"""Records some iterations of a training script that knows nothing of it. Plain Python 3.6, PyTorch 1.8 on.

`hooks` detects where iterations end, `recorder` counts them and starts and stops the profiler, `account` reports it in files.
"""
