#!/usr/bin/env python3
"""Training steps in PyTorch's DistributedDataParallel over gloo, in processes of one thread.

Each process has a batch, the same over and over, for the tutorial's CNN (../models.hpp) with 64
samples, or a model of ../deep_models.hpp. Prints a line "VARIANT/PROCESSES SAMPLES median min max"
for each repetition: microseconds of steps in real time; VARIANT is eager or channels_last,
MODEL_VARIANT with a deep model. At the end the memory of a process:
"..._memory/PROCESSES SAMPLES peak peak peak", in kB. See torch_step.py for the environment.
"""

import argparse
import os
import resource
import socket
import statistics
import time

import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

import torch_models
import torch_step

BATCHES = {"cnn": 64, "gpt": 12, "gpt2": 4, "resnet": 128, "bilstm": 32}
TIMES = 5  # of a repetition


def distributed(model):
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


def steps_of_a_time(step):
    """As many as take a fifth of a second, at most 20."""
    begin = time.perf_counter()
    for _ in range(2):
        step()
    return max(1, min(20, round(0.4 / (time.perf_counter() - begin))))


def run(rank, options, port):
    torch_step.set_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.processes)
    peer = torch_step if options.model == "cnn" else torch_models
    prefix = "" if options.model == "cnn" else options.model + "_"

    def report(name, low, middle, high):
        if rank == 0:
            print(f"{prefix}{name}/{options.processes} {BATCHES[options.model]} {middle:.2f} {low:.2f} {high:.2f}", flush=True)

    for variant in options.variants.split(","):
        step = peer.make_step(options.model, variant, distributed)
        for _ in range(3):
            step()
        steps = [steps_of_a_time(step)]
        dist.broadcast_object_list(steps)
        for _ in range(options.repetitions):
            times = []
            for _ in range(TIMES):
                begin = time.perf_counter()
                for _ in range(steps[0]):
                    step()
                times.append((time.perf_counter() - begin) / steps[0] * 1e6)
            report(variant, min(times), statistics.median(times), max(times))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024  # so the first variant's is its own
        report(variant + "_memory", peak, peak, peak)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--model", choices=BATCHES, default="cnn")
    parser.add_argument("--variants", default="eager,channels_last")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    multiprocessing.start_processes(run, (arguments, free_port), nprocs=arguments.processes, start_method="spawn")
