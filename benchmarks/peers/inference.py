#!/usr/bin/env python3
"""One prediction of the models in ../inference.cpp on one thread of the CPU, a sample a call:
peers/inference.py onnxruntime|torch FOLDER, which has the ONNX files of benchmark_inference.

Prints a CSV line for each model: "inference/MODEL","VARIANT",microseconds, the median of the calls.
Variants of PyTorch: eager, and traced (frozen and optimised for inference, as LibTorch runs it).
"""

import sys
import time

import numpy as np

SHAPES = {"table": (1, 30), "mlp": (1, 784), "cnn": (1, 28, 28)}


def onnxruntime_calls(name, folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx", options, ["CPUExecutionProvider"])
    binding = session.io_binding()  # input and output stay where they are
    binding.bind_cpu_input(session.get_inputs()[0].name, np.full(SHAPES[name], 0.5, np.float32))
    binding.bind_output(session.get_outputs()[0].name)
    yield "", lambda: session.run_with_iobinding(binding)


def torch_calls(name, _):
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    layers = {
        "table": lambda: [nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()],
        "mlp": lambda: [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)],
        "cnn": lambda: [nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(),
                        nn.Linear(32 * 26 * 26, 128), nn.ReLU(), nn.Linear(128, 10)],
    }
    model = nn.Sequential(*layers[name]()).eval()
    x = torch.full(SHAPES[name], 0.5)
    yield "eager", lambda: model(x)
    traced = torch.jit.optimize_for_inference(torch.jit.trace(model, x))
    yield "traced", lambda: traced(x)


def median_of(call):
    for _ in range(100):
        call()
    times = []
    end = time.perf_counter() + 1
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


if __name__ == "__main__":
    calls = {"onnxruntime": onnxruntime_calls, "torch": torch_calls}[sys.argv[1]]
    for model in SHAPES:
        for variant, call in calls(model, sys.argv[2]):
            print(f'"inference/{model}","{variant}",{median_of(call):.6g}', flush=True)
