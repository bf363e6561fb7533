#!/usr/bin/env python3
"""Training steps of the tutorial's CNN (../models.hpp) in PyTorch's DistributedDataParallel over gloo: processes of one thread on
this machine, 64 samples on each, on one batch over and over.

Prints a line "VARIANT/PROCESSES 64 median min max" for each repetition: microseconds of steps in real time. Variants: eager,
channels_last. See torch_step.py for the environment.
"""

import argparse
import os
import socket
import statistics
import time

import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

import torch_step

BATCH = 64  # torch_step's
STEPS = 20  # of a time
TIMES = 5  # of a repetition


def distributed(model):
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


def run(rank, options, port):
    torch_step.set_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.processes)
    for variant in options.variants.split(","):
        step = torch_step.make_step("cnn", variant, distributed)
        for _ in range(5):
            step()
        for _ in range(options.repetitions):
            times = []
            for _ in range(TIMES):
                begin = time.perf_counter()
                for _ in range(STEPS):
                    step()
                times.append((time.perf_counter() - begin) / STEPS * 1e6)
            if rank == 0:
                print(f"{variant}/{options.processes} {BATCH} {statistics.median(times):.2f} {min(times):.2f} {max(times):.2f}",
                      flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--variants", default="eager,channels_last")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    multiprocessing.start_processes(run, (arguments, free_port), nprocs=arguments.processes, start_method="spawn")
